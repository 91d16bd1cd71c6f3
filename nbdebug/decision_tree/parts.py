"""What the decision tree is made of; the other files of this folder hold it as data."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stage", "Step"]


@dataclass(frozen=True)
class Step:
    """One question of the tree, in plain words, why it is asked, and the checks that answer it."""

    id: str
    question: str
    why: str
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A group of questions that have to be settled before the next group makes sense."""

    id: str
    title: str
    steps: tuple[Step, ...]

    @property
    def checks(self) -> tuple[str, ...]:
        """All checks of the stage, in order."""
        return tuple(check for step in self.steps for check in step.checks)
