"""A loss that would be the same with other targets."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import TargetInfluence
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["loss_ignores_targets"]


@check(explains=("labels-unrelated-to-inputs", "learns-without-inputs", "worse-than-baseline"))
def loss_ignores_targets(
    targets: TargetInfluence,
    *,
    influence: float = 1e-7,  # rounding in single precision; a target that is used gives far more
) -> Iterator[Finding]:
    """The targets have no influence on the loss.

    nbdebug exchanges the targets for those of other samples and for other values, with the outputs held fixed, and
    compares the losses.

    Why it matters: what the loss does not see cannot be learned. The loss may fall all the same: toward a constant, or
    toward whatever the outputs are compared with instead.

    What to try: look at which tensor is handed to the loss in the place of the target. If the task has no need of
    labels (an autoencoder, a contrastive loss), leave them out of the batch.
    """
    ignored = [use for use in targets.uses if use.influence <= influence]
    for use in ignored:
        severity: Severity = "note"
        if use.fits_output and len(ignored) == len(targets.uses):
            severity = "bug" if targets.place == "loss_fn" else "suspect" if targets.wants_one_answer else "note"
        same = " It wants the same class for every sample." if targets.wants_one_answer else ""
        yield Finding(
            f"The loss stays the same to the last digit when the target {use.name} of shape {use.shape} is exchanged "
            f"for other values.{same}",
            where=targets.place,
            severity=severity,
            evidence={
                "change of the loss": use.influence,
                "threshold": influence,
                "source": "37 reasons, 18: check your loss function",
            },
            remedies=(
                Remedy(
                    "Compare the outputs with the target of the batch.",
                    "loss = loss_fn(output, target)",
                    Patch("replace-loss", {"loss": "usual"}),
                ),
            ),
        )
