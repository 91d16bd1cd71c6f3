"""Sees optimizer steps: gradients before and after clipping, weights before and after, and what was forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from nbdebug.twin.inner_steps import is_inner_step
from nbdebug.watch.hooks import scaler_of_step
from nbdebug.watch.norms import Norms, norms_of
from nbdebug.watch.passes import Passes
from nbdebug.watch.sample import NO_SCALE, Sample
from nbdebug.watch.sampling import WeightViews

__all__ = ["Followed", "Steps"]

SURE = 32  # steps after which a GradScaler is looked for only now and then
SURELY, VERIFIED = 3, 16  # gradients are measured again though nothing seems to have changed them: at first, and then


@dataclass
class Followed:
    """One optimizer: its parameters among those of the model, and what is known of its current step."""

    name: str
    optimizer: torch.optim.Optimizer
    places: np.ndarray
    parameters: list[torch.Tensor]
    views: WeightViews
    steps: int = 0
    backwards: int = 0
    cleared: bool = True
    unclear: bool = False  # whether the gradients were cleared could not be seen without waiting for a device
    probes: list[torch.Tensor] = field(default_factory=list)
    raw: Norms | None = None
    versions: list[int] = field(default_factory=list)
    sample: Sample | None = None
    has_closure: bool = False
    depth: int = 0  # of steps in steps: one of a class that calls the `step` of its parent is two

    @property
    def is_plain(self) -> bool:
        """Whether the gradients are ordinary numbers that NumPy can look at."""
        return self.views.is_plain


class Steps:
    """The optimizers of one model; the first that steps sets the pace, and each of its steps is one step of the run."""

    def __init__(
        self, parameters: Mapping[int, int], passes: Passes, guard: Callable[..., Any], on_step: Callable[..., None]
    ) -> None:
        self._places = dict(parameters)  # id of a parameter -> its place
        self.passes, self.guard, self.on_step = passes, guard, on_step
        self.followed: dict[int, Followed] = {}
        self.pace: Followed | None = None
        self.step = 0
        self.per_step: Counter[int] = Counter()
        self.without_backward = self.without_gradient = self.leftover = self.judged = 0
        self.scale: torch.Tensor | None = None
        self.discarded = 0
        self._unused = 0  # backward passes since any optimizer stepped
        self._in_step = False  # where a closure makes backward passes of its own
        self._handles: list[Any] = []
        self._measured = 0
        self._silent_change = False  # gradients were changed in a way that bumps no version
        self._began = 0.0
        passes.on_backward, passes.after_backward = self._backward_begins, self._backward_ends

    def follow(self, name: str, optimizer: torch.optim.Optimizer) -> Followed:
        """Take an optimizer in."""
        held = [p for group in optimizer.param_groups for p in group["params"] if id(p) in self._places]
        places = np.array([self._places[id(p)] for p in held], np.int64)
        self.followed[id(optimizer)] = Followed(name, optimizer, places, held, WeightViews(held))
        return self.followed[id(optimizer)]

    def attach(self, optimizers: Sequence[torch.optim.Optimizer] | None) -> None:
        """Hook these optimizers, or, for None, every one that steps and holds a parameter of the model."""
        before, after = self.guard(self._before), self.guard(self._after)
        if optimizers is None:
            self._handles.append(register_optimizer_step_pre_hook(before))
            self._handles.append(register_optimizer_step_post_hook(after))
        for optimizer in optimizers or ():
            self._handles.append(optimizer.register_step_pre_hook(before))
            self._handles.append(optimizer.register_step_post_hook(after))

    def detach(self) -> None:
        """Take every hook off; harmless when it is done twice."""
        while self._handles:
            self._handles[-1].remove()
            self._handles.pop()

    def _of(self, optimizer: Any) -> Followed | None:
        known = self.followed.get(id(optimizer))
        if known is not None and known.optimizer is optimizer:
            return known
        if any(id(p) in self._places for group in optimizer.param_groups for p in group["params"]):
            one = self.follow(f"{type(optimizer).__name__}{len(self.followed) or ''}", optimizer)
            one.backwards = self.passes.step_backwards  # those that came before it was known
            return one
        return None

    # --- around the backward pass -------------------------------------------------------------------------------

    def _backward_begins(self) -> None:
        if self._unused and not self._in_step and self._all_cleared():
            self.discarded += 1
            self.passes.losses = self.passes.losses[-1:]
            self._unused = 0
        self._unused += 1
        for one in self.followed.values():
            one.backwards += 1
            if one.steps and not one.cleared:
                one.cleared, one.unclear = _is_clear(one.probes)

    def _all_cleared(self) -> bool:
        """Whether the gradients of an earlier backward pass are gone, though no optimizer has used them."""
        trained = [p for one in self.followed.values() for p in one.parameters if p.requires_grad]
        return bool(trained) and all(p.grad is None for p in (trained[0], trained[len(trained) // 2], trained[-1]))

    def _backward_ends(self) -> None:
        """Measure the gradients as they come out of the backward pass, before anybody clips them."""
        if self.passes.due:
            for one in self.followed.values():
                gradients = [p.grad for p in one.parameters]
                one.raw = norms_of(gradients, is_plain=one.is_plain)
                one.versions = [-1 if g is None else g._version for g in gradients]

    # --- around the step ----------------------------------------------------------------------------------------

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        one = self._of(optimizer)
        if one is None:
            return
        one.depth = one.depth + 1 if one.depth and is_inner_step(optimizer) else 1
        if one.depth > 1:
            return
        self.passes.close_backward()
        if self.scale is not None or one.steps < SURE or one.steps % SURE == 0:
            scaler = scaler_of_step()
            self.scale = getattr(scaler, "_scale", None) if scaler is not None and scaler.is_enabled() else None
        if self.pace is None:
            self.pace = one
        self._in_step = True
        one.has_closure = (len(args) > 1 or bool(kwargs)) and any(map(callable, (*args[1:], *kwargs.values())))
        if not one.has_closure:
            self._judge(one)
        one.sample = None
        if self.passes.due:
            one.sample = self._measured_before(one)
        self._began = perf_counter()

    def _judge(self, one: Followed) -> None:
        if not one.probes or one.probes[0].grad is None:
            found = [p for p in one.parameters if p.grad is not None]
            one.probes = [found[i] for i in sorted({0, len(found) // 2, len(found) - 1})] if found else []
        self.without_gradient += not one.probes and bool(one.parameters)
        self.without_backward += bool(self.passes.passes and not one.backwards and not self.passes.asked_gradients)
        if one.steps and one.backwards and not one.unclear:
            self.judged += 1
            self.leftover += not one.cleared
        self.per_step[one.backwards] += one is self.pace

    def _measured_before(self, one: Followed) -> Sample:
        sample = Sample(self.step, one.places)
        self._measured += 1
        if not one.has_closure:
            self._take_gradients(one, sample)
        one.views.refresh()
        sample.before = one.views(self._measured)
        return sample

    def _take_gradients(self, one: Followed, sample: Sample) -> None:
        """Take the gradients as the optimizer will use them; measured again only where they were changed."""
        gradients = [p.grad for p in one.parameters]
        versions = [-1 if g is None else g._version for g in gradients]
        same = one.raw is not None and versions == one.versions and not self._silent_change
        if same and self._measured > SURELY and self._measured % VERIFIED:
            sample.used = one.raw
        else:
            sample.used = norms_of(gradients, is_plain=one.is_plain)
            if same and one.raw is not None and not _about_equal(one.raw, sample.used):
                self._silent_change = True
        sample.gradients, one.raw = one.raw, None
        if self.scale is not None:
            sample.scale = self.scale.detach().clone()
            pending = getattr(one.optimizer, "grad_scale", None)  # fused optimizers unscale by themselves
            sample.used_scale = pending.detach().clone() if isinstance(pending, torch.Tensor) else NO_SCALE

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        one = self._of(optimizer)
        if one is None:
            return
        one.depth = max(one.depth - 1, 0)
        if one.depth:
            return
        seconds = perf_counter() - self._began
        if one.sample is not None:
            if one.sample.used is None:  # the closure made the gradients
                one.sample.used = norms_of([p.grad for p in one.parameters])
            one.views.follow()
            one.sample.after = one.views(self._measured)
        if one.has_closure:
            self._judge(one)
        one.steps += 1
        self._unused, self._in_step = 0, False
        one.backwards, one.cleared, one.raw = 0, False, None
        sample, one.sample = one.sample, None
        self.on_step(one, seconds, sample)


def _is_clear(probes: list[torch.Tensor]) -> tuple[bool, bool]:
    """Whether the gradients of the last step are gone, and whether that could not be seen."""
    left = [g for p in probes if (g := p.grad) is not None]
    if not left:
        return True, False
    if any(g.device.type != "cpu" for g in left):
        return False, True
    return not any(bool(g.any()) for g in left), False


def _about_equal(first: Norms, second: Norms) -> bool:
    if not first.is_known:
        return True  # not worth waiting for a device
    return bool(np.allclose(first.numpy(), second.numpy(), rtol=1e-4, equal_nan=True))
