"""The page "I have this symptom": for each symptom of the decision tree the steps and checks that answer it."""

from __future__ import annotations

from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import Step, Symptom, symptoms, whole_tree

__all__ = ["symptoms_page"]

ABOUT = """\
# I have this symptom

Choose what you see. `nbdebug.diagnose(model, loader, symptom="loss is NaN")` checks the most likely causes first, in
the order of this page, then everything else; `nbdebug.wizard` asks for the symptom on its first screen. This page is
generated from the [decision tree](tree.md) by `make docs`.
"""


def symptoms_page() -> str:
    """Return the page, a section for each symptom."""
    steps = {step.id: step for stage in whole_tree(registry) for step in stage.steps}
    chosen = [symptom for symptom in symptoms() if symptom.leads]
    links = [f"- [{symptom.words}](#{_anchor(symptom.words)}): {symptom.about}" for symptom in chosen]
    return "\n".join([ABOUT, *links, "", *(_section(symptom, steps) for symptom in chosen)])


def _section(symptom: Symptom, steps: dict[str, Step]) -> str:
    """Return what to check for one symptom, with a line for each check."""
    lines = [f"## {symptom.words}\n", f"{symptom.about}\n"]
    if symptom.answered_by:
        links = ", ".join(_link(check) for check in symptom.answered_by)
        lines.append(f"These answer it directly: {links}.\n")
    for number, lead in enumerate(symptom.leads, 1):
        lines.append(f"{number}. {lead.why}\n")
        for step in (steps[name] for name in lead.steps if name in steps):
            lines += [f"    - {_link(check)}: {registry.checks[check].title}" for check in step.checks]
            lines += [f"    - `nbdebug.{name}`: {step.question}" for name in step.instruments]
        lines.append("")
    lines.append(f'```python\nreport = nbdebug.diagnose(model, loader, symptom="{symptom.id}", effort="quick")\n```\n')
    return "\n".join(lines)


def _link(check: str) -> str:
    return f"[{check}](checks/{check}.md)"


def _anchor(words: str) -> str:
    kept = "".join(c for c in words.lower() if c.isalnum() or c in " -_")
    return "-".join(kept.split())
