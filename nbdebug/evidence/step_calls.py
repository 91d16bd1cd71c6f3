"""What a few calls of the training step do beside training: to their batch, and with optimizers and schedulers."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.gradient_state import held_by
from nbdebug.experiments.reached_parts import innermost, reached_parts
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import total_of
from nbdebug.setup.nested import leaves, name_of, tensors_in
from nbdebug.setup.user_code import required_user_code
from nbdebug.watch.recorder.step_hooks import hook_outer_steps

__all__ = ["StepCalls", "step_calls"]


@dataclass(frozen=True)
class StepCalls:
    """What some calls of the training step showed, each with another batch.

    `inputs` counts the different inputs that the model received in all of them (0 if that cannot be seen). `changed`
    are entries of a stored batch that a call modifies in place, and again when it gets the same batch once more.
    `made` counts calls that trained the model with an optimizer of their own, of the class `made_kind`. `maximized`
    names schedulers that wait for a rise of what the step returns as its loss.
    """

    calls: int
    inputs: int = 0
    changed: tuple[str, ...] = ()
    made: int = 0
    made_kind: str = ""
    maximized: tuple[str, ...] = ()


CALLS = 6
_PLATEAU = torch.optim.lr_scheduler.ReduceLROnPlateau.step.__code__


@dataclass
class _Seen:
    """What is collected while the step runs."""

    inputs: set[bytes] = field(default_factory=set)
    metrics: list[tuple[Any, float]] = field(default_factory=list)
    matched: dict[int, int] = field(default_factory=dict)  # by a scheduler's id: calls that gave it their loss
    stepped: dict[int, tuple[Any, set[int]]] = field(default_factory=dict)
    call: int = 0


@probe
def step_calls(sandbox: Sandbox, trial: TrialRun | None, control: Control) -> StepCalls:
    """Call your training step with different batches, and look at what it reads and changes."""
    if sandbox.train_step is None:
        raise NotApplicable("no train_step was passed, so no call of it was observed")
    sandbox.ready_to_train()
    reached, seen = reached_parts(sandbox), _Seen()
    batches = sandbox.batches(CALLS)
    with _watching(sandbox, seen):
        for seen.call, batch in enumerate(batches):
            control.progress(seen.call / CALLS, "calling your training step")
            with required_user_code("your training step fails ({kind})", passing=()):
                said = total_of(sandbox.user_step(batch.clone()))
            _compare(seen, said)
    given = {_digest(tensors_in(batch.raw)) for batch in batches}
    known = {id(innermost(o)) for o in (sandbox.optimizer, *reached.optimizers.values())}
    own = {id(p) for p in sandbox.model.parameters()}
    made = [o for o, calls in seen.stepped.values() if len(calls) == 1 and id(o) not in known and o.state]
    made = [o for o in made if any(id(p) in own for p in held_by(o))]
    is_all_made = made and not any(id(o) in known for o, _ in seen.stepped.values())
    names = {id(scheduler): name for name, scheduler in reached.schedulers.items()}
    return StepCalls(
        calls=len(batches),
        inputs=len(seen.inputs) if len(given) == len(batches) else 0,
        changed=_changed(sandbox),
        made=len(made) if is_all_made else 0,
        made_kind=type(made[0]).__name__ if made else "",
        maximized=tuple(names.get(key, "scheduler") for key, count in seen.matched.items() if count == len(batches)),
    )


@contextmanager
def _watching(sandbox: Sandbox, seen: _Seen) -> Iterator[None]:
    def receives(module: Any, args: Any, kwargs: Any) -> None:
        seen.inputs.add(_digest(tensors_in((args, kwargs))))

    def stepped(optimizer: Any) -> None:
        seen.stepped.setdefault(id(optimizer), (optimizer, set()))[1].add(seen.call)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is _PLATEAU:
            metrics = frame.f_locals.get("metrics")
            if isinstance(metrics, (int, float, torch.Tensor)):
                seen.metrics.append((frame.f_locals.get("self"), float(metrics)))

    is_free = sys.getprofile() is None
    handles = [sandbox.model.register_forward_pre_hook(receives, with_kwargs=True)]
    handles += hook_outer_steps(lambda _: None, stepped)
    try:
        if is_free:
            sys.setprofile(profile)
        yield
    finally:
        if is_free:
            sys.setprofile(None)
        for handle in handles:
            handle.remove()


def _compare(seen: _Seen, said: Any) -> None:
    """Note the schedulers that got the returned loss as the metric to maximize."""
    value = said.detach() if isinstance(said, torch.Tensor) and said.numel() == 1 else said
    loss = float(value) if isinstance(value, (int, float, torch.Tensor)) else math.nan
    for scheduler, metric in seen.metrics:
        if getattr(scheduler, "mode", "") == "max" and math.isclose(metric, loss, rel_tol=1e-5):
            seen.matched[id(scheduler)] = seen.matched.get(id(scheduler), 0) + 1
    seen.metrics.clear()


def _changed(sandbox: Sandbox) -> tuple[str, ...]:
    """Return the entries that two calls in turn change in place, where the loader gives the same memory each time."""
    feed = sandbox.setup.feed
    one, other = feed.take(2), feed.take(1)
    if len(one) < 2 or not other:
        return ()
    places = [[t.data_ptr() for t in tensors_in(raw)] for raw in (*one, *other)]
    if not places[0] or places[0] != places[2] or set(places[0]) & set(places[1]):
        return ()
    batch: Batch = sandbox.batch().clone()
    changes = []
    for _ in range(2):
        before = {name_of(path): t.detach().clone() for path, t in leaves(batch.raw) if isinstance(t, torch.Tensor)}
        with required_user_code("your training step fails on the same batch ({kind})", passing=()):
            sandbox.user_step(batch)
        after = {name_of(path): t for path, t in leaves(batch.raw) if isinstance(t, torch.Tensor)}
        changes.append({name for name, t in before.items() if name in after and not torch.equal(t, after[name])})
    return tuple(sorted(changes[0] & changes[1]))


def _digest(tensors: list[torch.Tensor]) -> bytes:
    found = hashlib.blake2b(digest_size=12)
    for tensor in tensors:
        if tensor.layout is torch.strided and not tensor.is_nested:
            values = tensor.detach().cpu()
            found.update(values.double().contiguous().numpy().tobytes() if not values.is_complex() else b"complex")
    return found.digest()
