"""How the views of a model get what they show: from a session on a copy, or from what a watch recorded."""

from __future__ import annotations

from typing import Any, TypeVar

from nbdebug.engine.session import Session
from nbdebug.errors import BadInput
from nbdebug.evidence.recording import Recording
from nbdebug.setup import Setup

__all__ = ["gathered", "recorded"]

T = TypeVar("T")


def recorded(source: Any, **options: Any) -> Recording | None:
    """Return the recording behind a live watch, a saved run, or itself; None for anything else."""
    if isinstance(source, Recording):
        return source
    record = getattr(source, "recording", None)
    found = record(**options) if callable(record) else None
    return found if isinstance(found, Recording) else None


def gathered(kind: type[T], model: Any, loader: Any, *arguments: Any, **options: Any) -> T:
    """Measure this kind of evidence on a copy of the model."""
    if loader is None:
        raise BadInput(
            "it is missing",
            where="loader",
            expected="the training loader, next to the model",
            do="pass a DataLoader as the second argument, or only a recording of nbdebug.watch",
        )
    found: T = Session(Setup(model, loader, *arguments, **options)).gather(kind)
    return found
