"""Write a fix as a unified diff of the user's own code, where it is known which function holds the place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn

from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Remedy
from nbdebug.fixes.source.creation import creation_edits
from nbdebug.fixes.source.edits import LAYERS, edits_for
from nbdebug.fixes.source.text import Source, source_of
from nbdebug.setup import Setup
from nbdebug.setup.batch_layout import unwrap

__all__ = ["Change", "change_for", "with_diffs"]

Change = tuple[str, Source, str]  # the part that a function serves, its source, and the changed text


def with_diffs(setup: Setup, finding: Finding) -> Finding:
    """Return the finding with a unified diff in each of its fixes that can be written in the user's own code."""
    if not any(remedy.patch is not None and not remedy.diff for remedy in finding.remedies):
        return finding
    return replace(finding, remedies=tuple(_with_diff(setup, finding.where, r) for r in finding.remedies))


def _with_diff(setup: Setup, where: str, remedy: Remedy) -> Remedy:
    if remedy.patch is None or remedy.diff:
        return remedy
    change = change_for(setup, where, remedy)
    return replace(remedy, diff=change[1].diff(change[2])) if change is not None else remedy


def change_for(setup: Setup, where: str, remedy: Remedy) -> Change | None:
    """Return the change of one function that makes this fix; None where no function, or more than one, can be meant."""
    if remedy.patch is None:
        return None
    found: list[Change] = []
    for part, source, layers in _functions(setup, where):
        edits = edits_for(remedy.patch.name, part, source, {**remedy.patch.settings, "layers": layers})
        if edits and source.diff(changed := source.edited(edits)):
            found.append((part, source, changed))
    found = found or list(creation_edits(setup, where, remedy.patch))
    return found[0] if len(found) == 1 else None


def _functions(setup: Setup, where: str) -> Iterator[tuple[str, Source, tuple[str, ...]]]:
    """Yield the user's own functions that may hold the place, with the names of activation layers of their module."""
    for part in ("train_step", "compute_loss", "loss_fn"):
        source = source_of(getattr(setup, part))
        if source is not None and (where in ("", part) or where not in ("train_step", "compute_loss")):
            yield part, source, ()
    seen: set[int] = set()
    for module in _modules(setup, where):
        forward: Any = getattr(type(module), "forward", None)
        if id(forward) not in seen and (source := source_of(forward)) is not None:
            layers = tuple(n for n, child in module.named_children() if type(child).__name__ in LAYERS)
            yield "forward", source, layers
        seen.add(id(forward))


def _modules(setup: Setup, where: str) -> list[nn.Module]:
    """Return the modules on the way from the model to a place."""
    found, module = [unwrap(setup.model)], unwrap(setup.model)
    for name in where.split("."):
        child = dict(module.named_children()).get(name)
        if child is None:
            break
        module = child
        found.append(module)
    return found
