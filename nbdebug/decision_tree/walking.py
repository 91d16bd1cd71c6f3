"""Walk the tree, with the user's own checks in their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.decision_tree.parts import Stage, Step
from nbdebug.decision_tree.stages import TREE
from nbdebug.registry import Registry

__all__ = ["stages", "step_of"]

YOURS = Stage("yours", "Yours", ())


def stages(known: Registry) -> list[Stage]:
    """Give the tree with the user's own checks in their stages; those without a place stand in the last one."""
    placed = {check for stage in TREE for check in stage.checks}
    own = [spec for spec in known.checks.values() if spec.id not in placed]
    ids = {stage.id for stage in TREE}
    grown = [_with_own(stage, [s.id for s in own if s.stage == stage.id]) for stage in TREE]
    rest = [spec.id for spec in own if spec.stage not in ids]
    return [*grown, _with_own(YOURS, rest)] if rest else grown


def _with_own(stage: Stage, checks: list[str]) -> Stage:
    if not checks:
        return stage
    step = Step(f"{stage.id}-own", "What do your own checks say?", "You defined them.", tuple(checks))
    return replace(stage, steps=(*stage.steps, step))


def step_of(known: Registry) -> Iterator[tuple[Stage, Step]]:
    """Walk the tree in order, step by step."""
    for stage in stages(known):
        for step in stage.steps:
            yield stage, step
