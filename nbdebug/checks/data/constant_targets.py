"""Targets that never vary."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.target_influence import TargetInfluence

__all__ = ["constant_targets"]


@check(explains=("labels-unrelated-to-inputs", "model-ignores-inputs", "outputs-identical"))
def constant_targets(
    sweep: LoaderSweep,
    use: TargetInfluence | None,
    *,
    least: int = 20,  # samples; fewer can be equal by coincidence; our choice
) -> Iterator[Finding]:
    """Every sample has the same target.

    nbdebug compares the targets of samples from across the dataset. A target that does not affect the loss may have any
    value.

    Why it matters: a bias alone fits it. The loss falls to zero, the accuracy is perfect, and the model has learned
    nothing.

    What to try: follow one label from its file into the batch; look for a filter that left one class, a column that was
    overwritten, or a label that is computed before the data is loaded.
    """
    sweep.require(least)
    if not sweep.targets:
        raise NotApplicable("the batch has no separate target")
    influence = {u.name: u.influence for u in use.uses} if use is not None else {}
    for part in sweep.targets:
        if part.samples < least or part.bad:
            continue
        evidence = {"lowest": part.low, "highest": part.high, "samples": part.samples, "threshold": 0,
                    "source": "37 reasons, 1"}  # fmt: skip
        if not part.varies:
            ignored = influence.get(part.name) == 0
            yield Finding(
                f"The target `{part.name}` is identical in {sweep.says}"
                + (f": it is {part.low:g}." if part.low == part.high else ".")
                + (" It does not affect the loss." if ignored else ""),
                where=part.name,
                severity="note" if ignored else "bug",
                evidence=evidence,
                remedies=(Remedy("Print some labels.", "print([loader.dataset[i][1] for i in range(20)])"),),
            )
        elif part.constant_columns and len(part.shape) == 1 and part.width > 1:
            named = ", ".join(str(c) for c in part.constant_columns[:8])
            yield Finding(
                f"{len(part.constant_columns)} of {part.width} columns of the target `{part.name}` are constant in "
                f"{sweep.says}: {named}.",
                where=f"{part.name}[:, {part.constant_columns[0]}]",
                severity="note",
                evidence={**evidence, "columns": list(part.constant_columns[:50])},
            )
