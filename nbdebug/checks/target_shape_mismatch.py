"""Outputs compared with the targets of other samples."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import TargetAlignment
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["target_shape_mismatch"]

SOURCE = "in a loss over samples, a target pulls at its own output alone"


@check(explains=("forward-fails", "batch-not-memorised", "worse-than-baseline", "loss-ignores-targets",
                 "learns-without-inputs", "initial-loss-off", "invalid-labels"))  # fmt: skip
def target_shape_mismatch(
    alignment: TargetAlignment,
    *,
    spill: float = 0.3,  # of a target's pull that falls on other samples; exactly 0 when the shapes agree
) -> Iterator[Finding]:
    """Outputs and targets have different shapes, and are silently stretched over each other.

    nbdebug holds the outputs fixed, changes the target of one sample, and looks at whose outputs the loss then pulls.
    If it pulls at other samples, and no longer does so once the target is reshaped, the shapes were stretched: (N,)
    against (N, 1) becomes N × N. A loss that compares samples on purpose pulls at others in every shape.

    Why it matters: every output is compared with every target, so the best that the model can do is to predict the mean
    for all. The loss falls at first, and nothing fails.

    What to try: give both the same shape, `output.squeeze(1)` or `target.unsqueeze(1)`, and assert that they agree.
    """
    shapes = f"outputs {alignment.output_shape} and targets {alignment.target_shape}"
    evidence = {"output": alignment.output_shape, "target": alignment.target_shape, "source": SOURCE}
    if alignment.output_shape == alignment.target_shape:
        return
    if alignment.reshape and alignment.spill > spill:
        yield Finding(
            f"{alignment.spill:.0%} of the pull of a sample's target falls on other samples, because {shapes} are "
            f"stretched over each other; with {alignment.reshape} it is {alignment.mended:.0%}.",
            where=alignment.name,
            severity="note" if alignment.assumed else "bug",
            evidence={**evidence, "pull at others": alignment.spill, "reshaped": alignment.mended, "threshold": spill},
            remedies=(
                Remedy("Give both the same shape.", f"loss_fn(output, {alignment.reshape})", Patch("shape-target")),
            ),
            exhibit=Bars(("as it is", alignment.reshape), (alignment.spill, alignment.mended), title="Pull at others"),
        )
    elif alignment.warning and not alignment.assumed:
        yield Finding(
            f"The loss stretches {shapes} over each other, and PyTorch warns: {alignment.warning}",
            where=alignment.name,
            severity="suspect",
            evidence={**evidence, "pull at others": alignment.spill, "threshold": spill},
            remedies=(
                Remedy("Give both the same shape.", "assert output.shape == target.shape", Patch("shape-target")),
            ),
        )
    elif alignment.error and _differ_by_ones(alignment):
        yield Finding(
            f"The loss refuses {shapes}: {alignment.error.splitlines()[0]}",
            where=alignment.name,
            evidence={**evidence, "error": alignment.error, "threshold": 0},
            remedies=(
                Remedy("Give both the same shape.", "loss_fn(output, target.view_as(output))", Patch("shape-target")),
            ),
        )


def _differ_by_ones(alignment: TargetAlignment) -> bool:
    """Whether the shapes are the same but for dimensions of length 1."""
    output, target = ([n for n in shape if n != 1] for shape in (alignment.output_shape, alignment.target_shape))
    return output == target
