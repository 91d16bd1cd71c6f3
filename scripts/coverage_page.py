"""The page that says, for every piece of advice of the sources, what serves it."""

from __future__ import annotations

from seed_items import NOT_YET, SOURCES

from nbdebug.engine.decision_tree import TREE, find_symptom

__all__ = ["coverage_page"]

ABOUT = """\
nbdebug grew out of five texts on debugging neural networks. Each of their items is listed here in a few words, with
what serves it: a [check](checks.md), a step, a question or a symptom of [the tree](tree.md), advice on a part of the
error, or a function. `make docs` makes this page, and a test fails if an item is served by nothing, or by something
that does not exist.
"""


def coverage_page() -> str:
    """Return the page."""
    count = sum(len(items) for items in SOURCES.values())
    parts = ["# What serves each item of the sources\n", ABOUT, f"{count} items.\n"]
    if NOT_YET:
        parts.append(f"Functions in *italics* are still to come: {', '.join(f'*{name}*' for name in NOT_YET)}.\n")
    for source, items in SOURCES.items():
        parts += [f"## {source}\n", "| item | asks for | served by |", "|---|---|---|"]
        for number, says, served in items:
            parts.append(f"| {number} | {says} | {', '.join(link(reference) for reference in served.split())} |")
        parts.append("")
    return "\n".join(parts)


def link(reference: str) -> str:
    """Return a reference as a reader can follow it."""
    if reference.startswith("nbdebug."):
        return f"*{reference}*" if reference.removeprefix("nbdebug.") in NOT_YET else f"`{reference}`"
    kind, _, name = reference.partition(":")
    if kind == "check":
        return f"[{name}](checks/{name}.md)"
    if kind == "remedy":
        check = name.partition(":")[0]
        return f"what [{check}](checks/{check}.md) tells to try"
    if kind == "question":
        return f"the question [{name}](tree.md#{name})"
    if kind == "symptom":
        return f'the symptom "{find_symptom(name).words}"'
    if kind == "step":
        return next(f'the step "{s.label}"' for stage in TREE for s in stage.steps if s.id == name)
    return f"advice on {name.replace('+', ' ')}"
