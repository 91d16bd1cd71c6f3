"""Outputs and targets are broadcast against each other."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import TargetAlignment
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["target_shape_mismatch"]

SOURCE = "in a per-sample loss, a target affects the gradient of its own output only"


@check(explains=("forward-fails", "batch-not-memorised", "worse-than-baseline", "loss-ignores-targets",
                 "learns-without-inputs", "initial-loss-off", "invalid-labels"))  # fmt: skip
def target_shape_mismatch(
    alignment: TargetAlignment,
    *,
    spill: float = 0.3,  # fraction of a target's gradient effect on other samples; exactly 0 when the shapes match
) -> Iterator[Finding]:
    """Outputs and targets have different shapes and are silently broadcast.

    nbdebug keeps the outputs fixed, changes the target of one sample, and measures which outputs get another loss
    gradient. If other samples are affected, and no longer are once the target is reshaped, the shapes were broadcast:
    (N,) against (N, 1) becomes N × N. A loss that compares samples on purpose affects others in every shape.

    Why it matters: every output is compared with every target, so the best the model can do is predict the mean for all
    samples. The loss falls at first, and nothing fails.

    What to try: give both the same shape, `output.squeeze(1)` or `target.unsqueeze(1)`, and assert that they match.
    """
    shapes = f"outputs {alignment.output_shape} and targets {alignment.target_shape}"
    evidence = {"output": alignment.output_shape, "target": alignment.target_shape, "source": SOURCE}
    if alignment.output_shape == alignment.target_shape:
        return
    if alignment.reshape and alignment.spill > spill:
        yield Finding(
            f"The loss broadcasts {shapes}: {alignment.spill:.0%} of a target's effect falls on other samples "
            f"({alignment.mended:.0%} with `{alignment.reshape}`).",
            where=alignment.name,
            severity="note" if alignment.assumed else "bug",
            evidence={**evidence, "pull at others": alignment.spill, "reshaped": alignment.mended, "threshold": spill},
            remedies=(
                Remedy(
                    "Give outputs and targets the same shape.",
                    f"loss_fn(output, {alignment.reshape})",
                    Patch("shape-target"),
                ),
            ),
            exhibit=Bars(
                ("current shapes", alignment.reshape),
                (alignment.spill, alignment.mended),
                title="Effect on other samples",
            ),
        )
    elif alignment.warning and not alignment.assumed:
        yield Finding(
            f"The loss broadcasts {shapes}, and PyTorch warns: {alignment.warning}",
            where=alignment.name,
            severity="suspect",
            evidence={**evidence, "pull at others": alignment.spill, "threshold": spill},
            remedies=(
                Remedy(
                    "Give outputs and targets the same shape.",
                    "assert output.shape == target.shape",
                    Patch("shape-target"),
                ),
            ),
        )
    elif alignment.error and _differ_by_ones(alignment):
        yield Finding(
            f"The loss rejects {shapes}: {alignment.error.splitlines()[0]}",
            where=alignment.name,
            evidence={**evidence, "error": alignment.error, "threshold": 0},
            remedies=(
                Remedy(
                    "Give outputs and targets the same shape.",
                    "loss_fn(output, target.view_as(output))",
                    Patch("shape-target"),
                ),
            ),
        )


def _differ_by_ones(alignment: TargetAlignment) -> bool:
    """Return whether the shapes are equal except for dimensions of size 1."""
    output, target = ([n for n in shape if n != 1] for shape in (alignment.output_shape, alignment.target_shape))
    return output == target
