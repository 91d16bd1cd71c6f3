"""What a check detects, why it matters and how to fix it, from its docstring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdebug.core.registry import CheckSpec, registry

__all__ = ["Explanation", "explain", "list_checks"]


@dataclass(frozen=True)
class Explanation:
    """The documentation of one check; prints as text and renders as Markdown in a notebook."""

    id: str
    title: str
    about: str
    why: str
    remedy: str
    thresholds: dict[str, Any]

    def __str__(self) -> str:
        """Return the text for a terminal."""
        parts = [f"{self.id}: {self.title}", self.about, f"Why it matters: {self.why}", f"What to try: {self.remedy}"]
        if self.thresholds:
            parts.append("Thresholds: " + ", ".join(f"{name}={value!r}" for name, value in self.thresholds.items()))
        return "\n\n".join(part for part in parts if part)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        thresholds = "".join(f"\n- `{name}` = `{value!r}`" for name, value in self.thresholds.items())
        return (
            f"**{self.id}**: {self.title}\n\n{self.about}\n\n**Why it matters**: {self.why}\n\n"
            f"**What to try**: {self.remedy}" + (f"\n\nThresholds:\n{thresholds}" if thresholds else "")
        )


def explain(check: str) -> Explanation:
    """Return what a check detects, why it matters and how to fix it; needs no model and no torch."""
    spec = registry.load("nbdebug.checks").find(check)
    return _explanation(spec)


def list_checks() -> list[str]:
    """Return the ids of all checks, in the order of the tree."""
    from nbdebug.engine.decision_tree import stages

    return [check for stage in stages(registry.load("nbdebug.checks")) for check in stage.checks]


def _explanation(spec: CheckSpec) -> Explanation:
    return Explanation(spec.id, spec.title, spec.texts["about"], spec.why, spec.remedy, spec.thresholds)
