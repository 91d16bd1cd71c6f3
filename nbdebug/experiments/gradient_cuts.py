"""Which operation between some parameters and the loss ends the gradient, read off a recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbdebug.errors import NotApplicable
from nbdebug.experiments.parameter_influence import altered
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["Cut", "cut_of", "influence_on_loss"]

_FLAT = ("round", "floor", "ceil", "trunc", "sign", "heaviside", "round_", "floor_", "sign_", "fix", "sgn")
_ASK_SHAPE = ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like")


@dataclass(frozen=True)
class Cut:
    """An operation whose output has no gradient, or a zero one, and the module that calls it."""

    op: str
    module: str


def cut_of(sandbox: Sandbox, batch: Batch, parameters: Sequence[torch.Tensor]) -> Cut | None:
    """Return the operation that ends the gradient of these parameters on the way to the loss; None where none does."""
    recording = _recorded(sandbox, batch)
    if recording is None:
        return None
    begins = {recording.leaves[id(p)] for p in parameters if id(p) in recording.leaves}
    reached, cuts = set(begins), list[Op]()
    for op in recording.ops:
        if reached.isdisjoint(op.inputs) or op.name in _ASK_SHAPE:
            continue
        reached.update(op.made)
        if _ends(recording, op, reached):
            cuts.append(op)
    behind = _behind(recording)
    on_the_way = [op for op in cuts if behind & set(op.made)]
    if on_the_way:
        op = on_the_way[0]
        return Cut("no_grad" if not op.has_grad else op.name, op.module)
    escaped = [index for number, index in recording.escapes if number in reached]
    return Cut("item() or numpy()", _module_before(recording, escaped[0])) if escaped else None


def influence_on_loss(sandbox: Sandbox, batch: Batch, parameters: Sequence[torch.Tensor]) -> float:
    """Return the relative change of the losses of a run when these values are strongly changed; 0 where none shows."""
    values = []
    for is_changed in (False, False, True):
        if is_changed:
            with altered(parameters):
                recording = _recorded(sandbox, batch)
        else:
            recording = _recorded(sandbox, batch)
        values.append(_losses(recording))
    first, again, changed = values
    if not first or not (len(first) == len(again) == len(changed)):
        return 0.0
    scale = max(sum(abs(value) for value in first), 1e-12)
    noise = sum(abs(a - b) for a, b in zip(first, again, strict=True)) / scale
    change = sum(abs(a - b) for a, b in zip(first, changed, strict=True)) / scale
    return change if change > 10 * noise + 1e-7 else 0.0


def _recorded(sandbox: Sandbox, batch: Batch) -> Recording | None:
    """Record a run of the step or the loss; None where it fails under the recorder."""
    try:
        return run_recorded(sandbox, batch, step=sandbox.train_step is not None)
    except (NotApplicable, RuntimeError, TypeError, ValueError):
        return None


def _losses(recording: Recording | None) -> list[float]:
    roots = recording.roots if recording is not None else []
    tensors = [recording.values[root].tensor for root in roots] if recording is not None else []
    return [float(t.detach()) for t in tensors if t is not None and t.numel() == 1]


def _ends(recording: Recording, op: Op, reached: set[int]) -> bool:
    """Whether a gradient could go into this operation's inputs, but none, or only zeros, comes out of it."""
    values = recording.values
    if not op.has_grad:
        return True
    fed = [n for n in op.inputs if n in reached and values[n].requires_grad]
    if not fed or not op.outputs:
        return False
    return op.name in _FLAT or not any(values[n].requires_grad for n in op.made)


def _behind(recording: Recording) -> set[int]:
    """Return all values that a loss of the run is computed from, with a gradient or without."""
    found, queue = set(recording.roots), list(recording.roots)
    while queue:
        op = recording.producer(queue.pop())
        for number in op.inputs if op is not None else ():
            if number not in found:
                found.add(number)
                queue.append(number)
    return found


def _module_before(recording: Recording, index: int) -> str:
    return recording.ops[index - 1].module if 0 < index <= len(recording.ops) else ""
