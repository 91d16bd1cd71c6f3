"""See which parts of a batch the user's own code passes to the model, and which one the loss compares with.

A `compute_loss` or a `train_step` may take its batch apart in any order, which the names of forward's arguments do not
tell. Its own call does: the arguments are found in the batch by identity, the target on the tape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from nbdebug.errors import Cancelled, OutOfTime
from nbdebug.experiments.tape import Taint, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Reading
from nbdebug.setup.nested import Path, children, leaves, name_of

__all__ = ["observed_reading"]

_NOT_GIVEN = Taint.PARAMETER | Taint.FROZEN | Taint.RANDOM | Taint.UNSEEN


def observed_reading(sandbox: Sandbox, batch: Batch) -> Reading | None:
    """Return how the user's code reads a batch; None where that is not seen, or is what was assumed."""
    known = batch.reading
    called = _called(sandbox, batch.clone())
    target = _target(sandbox, batch)
    reading = known
    if called is not None:
        reading = replace(reading, args=called[0], kwargs=called[1], reason="your own code calls the model so")
    if target is not None and not (target in reading.input_paths and known.target is None):
        reading = replace(reading, target=target, reason="your own code compares with it")
    elif reading.target in reading.input_paths and reading.target not in known.input_paths:
        reading = replace(reading, target=None)  # what was taken for the target is an input
    same = (reading.args, reading.kwargs, reading.target) == (known.args, known.kwargs, known.target)
    return None if same else reading


def _called(sandbox: Sandbox, batch: Batch) -> tuple[tuple[Path, ...], dict[str, Path]] | None:
    """Return the places of the arguments of the one call of the model; None where one is no part of the batch."""
    seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    if isinstance(sandbox.model, torch.jit.ScriptModule):
        return None
    handle = sandbox.model.register_forward_pre_hook(lambda _, a, k: seen.append((a, k)), with_kwargs=True)
    try:
        if sandbox.compute_loss is not None:
            sandbox.run(batch)
        elif sandbox.train_step is not None:
            sandbox.user_step(batch)
    except (Cancelled, OutOfTime):
        raise
    except Exception:  # what fails is said by its own check
        return None
    finally:
        handle.remove()
    if len(seen) != 1:
        return None
    places = {id(part): path for path, part in _parts(batch.raw)}
    args, kwargs = seen[0]
    if (not args and not kwargs) or any(id(value) not in places for value in (*args, *kwargs.values())):
        return None
    return tuple(places[id(a)] for a in args), {name: places[id(value)] for name, value in kwargs.items()}


def _parts(raw: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Return every tensor and every container of a batch with its place."""
    inner = children(raw)
    here = [(path, raw)] if inner is not None or isinstance(raw, torch.Tensor) else []
    return here + [found for step, part in inner or () for found in _parts(part, (*path, step))]


def _target(sandbox: Sandbox, batch: Batch) -> Path | None:
    """Return the one entry of the batch that the prediction is compared with."""
    try:
        tape = record(sandbox, batch)
    except (Cancelled, OutOfTime):
        raise
    except Exception:  # a program that cannot be taped is read as before
        return None
    if tape.main.comparison is None:
        return None
    value = tape.recording.values[tape.main.comparison.target]
    if value.taint & _NOT_GIVEN or len(value.sources) != 1:
        return None
    return next((path for path, _ in leaves(batch.raw) if name_of(path) in value.sources), None)
