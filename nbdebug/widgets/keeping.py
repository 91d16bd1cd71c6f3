"""What of an earlier wizard still holds for a new one: results about data that is the same, and a person's answers."""

from __future__ import annotations

from typing import Any

from nbdebug.core.registry import Registry
from nbdebug.core.shell import running_shell
from nbdebug.engine.decision_tree import stages
from nbdebug.engine.session import Session
from nbdebug.sandbox import Sandbox

__all__ = ["cell_id", "hand_over", "needs_model", "tells_of_data_only"]

DATA = ("loader", "val_loader", "test_loader", "class_names", "sweep_samples", "sweep_seconds")


def hand_over(old: Session, new: Session, changed: set[str]) -> set[str]:
    """Return the new session what still holds, and the ids of the checks whose results are out of date."""
    new.journal.symptom = old.journal.symptom
    for question, value in old.journal.answers.items():
        new.journal.answer(question, value)
    for check, values in old.thresholds.items():
        new.set_thresholds(check, **{**values, **new.thresholds.get(check, {})})
    stale = set()
    keeps = tells_of_data_only(new.registry) if not changed & set(DATA) else set()
    for result in old.journal.results:
        if result.check in keeps:
            new.journal.write(result)
        elif result.check in new.registry.checks:
            stale.add(result.check)
    return stale


def tells_of_data_only(known: Registry) -> set[str]:
    """Return the checks of the first stage whose evidence is gathered without the model."""
    first = stages(known)[0]
    return {check for check in first.checks if not needs_model(known, known.checks[check].needs)}


def needs_model(known: Registry, needs: dict[str, Any]) -> bool:
    """Return whether evidence that needs this is gathered with the model."""
    for need in needs.values():
        probe = known.probes.get(need.kind)
        if need.kind is Sandbox or (probe is not None and needs_model(known, probe.needs)):
            return True
    return False


def cell_id() -> str:
    """Name the notebook's cell that is running, where the front end says so; empty elsewhere."""

    shell = running_shell()
    kernel = getattr(shell, "kernel", None)
    try:
        return str(kernel.get_parent("shell")["metadata"].get("cellId", "")) if kernel is not None else ""
    except (LookupError, TypeError, AttributeError):
        return ""
