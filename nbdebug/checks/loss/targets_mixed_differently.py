"""Inputs that are mixed with other samples than their targets are, or by other shares."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["targets_mixed_differently"]


@check(explains=("loss-depends-on-order", "labels-unrelated-to-inputs", "noisy-labels", "training-fails"))
def targets_mixed_differently(
    operands: LossOperands,
    *,
    apart: float = 0.05,  # between the shares of inputs and targets; equal ones differ by rounding only
) -> Iterator[Finding]:
    """Inputs and targets are mixed with different samples, or by different shares.

    nbdebug records one run of your loss and looks for samples that are put in another order: once on the way to the
    prediction, once on the way to the target. It compares the permutations, and the shares of the samples' own values.

    Why it matters: mixup and CutMix train on mixed samples whose labels are mixed in the same way. With two
    permutations, half of each label belongs to an image that is not in the mixture; the model learns more slowly and
    becomes less sure than it should be, and nothing fails.

    What to try: draw one permutation and one share, and use both for the inputs and for the targets.
    """
    found = operands.mixed
    if found is None:
        raise NotApplicable("inputs and targets are not reordered")
    if found.same_partners and not abs(found.input_share - found.target_share) > apart:
        return
    said = (
        f"The inputs keep {found.input_share:.0%} of their own values and the targets {found.target_share:.0%}: they "
        "are mixed by different shares."
        if found.same_partners
        else f"Inputs and targets of {found.samples} samples are reordered by different permutations: each input is "
        "mixed with one sample, and its target with another."
    )
    yield Finding(
        said,
        where=operands.place,
        severity="bug",
        evidence={
            "permutations of inputs": found.inputs,
            "permutations of targets": found.targets,
            "same partners": found.same_partners,
            "own share of inputs": found.input_share,
            "own share of targets": found.target_share,
            "threshold": apart,
            "source": "Zhang et al., 2018 (mixup): one permutation and one share for both",
        },
        remedies=(
            Remedy(
                "Use one permutation and one share for both.",
                "order = torch.randperm(len(x))\nx = share * x + (1 - share) * x[order]\n"
                "y = share * y + (1 - share) * y[order]",
            ),
        ),
    )
