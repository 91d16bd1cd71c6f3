"""Sees optimizer steps: gradients before and after clipping, weights before and after, and what was forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch

from nbdebug.core.torch_compat import loss_scale
from nbdebug.watch.recorder.followed import Followed, about_equal, are_same, heads, is_clear, marks
from nbdebug.watch.recorder.hooks import is_in_step, scaler_of_step
from nbdebug.watch.recorder.passes import Passes
from nbdebug.watch.recorder.sample import NO_SCALE, Sample
from nbdebug.watch.recorder.sampling import SURELY, VERIFIED
from nbdebug.watch.recorder.step_hooks import hook_steps, is_inner_step
from nbdebug.watch.recorder.weights import WeightViews

__all__ = ["Steps"]

PATIENCE = 64  # steps of another optimizer after which the one that set the pace is taken to be gone
PROBES = 5  # parameters whose gradients stand for all


class Steps:
    """The optimizers of one model; the first that steps sets the pace, and each of its steps is one step of the run."""

    def __init__(
        self, parameters: Mapping[int, int], passes: Passes, guard: Callable[..., Any], on_step: Callable[..., None]
    ) -> None:
        self._places = dict(parameters)  # id of a parameter -> its place
        self.passes, self.on_step = passes, on_step
        self.on_before, self.on_after = guard(self._before), guard(self._after)
        self.followed: dict[int, Followed] = {}
        self.pace: Followed | None = None
        self.step = 0
        self.per_step: Counter[int] = Counter()
        self.without_backward = self.without_gradient = self.leftover = self.judged = self.late = 0
        self.strangers: Counter[str] = Counter()  # steps of optimizers that hold nothing of the model
        self.scale: torch.Tensor | None = None
        self.discarded = 0
        self.lost: Counter[int] = Counter()  # backward passes in vain, of the first steps whose gradients were measured
        self._lost_now = 0  # since the last step, with the weights as they are
        self.outside: list[int] = []  # of the first steps those before which something else had changed the weights
        self._unused = 0  # backward passes since any optimizer stepped
        self._in_step = False  # where a closure makes backward passes of its own
        self._handles: list[Any] = []
        self._is_nested = False  # some steps are made inside of others
        self._silent_change = False  # gradients were changed in a way that bumps no version
        self._began = 0.0
        passes.on_backward, passes.after_backward = self._backward_begins, self._backward_ends

    def follow(self, name: str, optimizer: torch.optim.Optimizer) -> Followed:
        """Take an optimizer in."""
        one = Followed(name, optimizer)
        self._read_groups(one)
        self.followed[id(optimizer)] = one
        return one

    def _read_groups(self, one: Followed) -> None:
        """See which parameters an optimizer holds; groups may come later."""
        every = [p for group in one.optimizer.param_groups for p in group["params"]]
        one.count, one.parameters = len(every), [p for p in every if id(p) in self._places]
        one.places = np.array([self._places[id(p)] for p in one.parameters], np.int64)
        one.views, one.raw = WeightViews(one.parameters), None

    def attach(self, optimizers: Sequence[torch.optim.Optimizer] | None) -> None:
        """Hook these optimizers, or, for None, every one that steps and holds a parameter of the model."""
        self._handles += hook_steps(self.on_before, self.on_after, optimizers)

    def detach(self) -> bool:
        """Take every hook off, harmless when it is done twice; False where that has to wait for the end of a step.

        torch goes through the hooks of an optimizer as they are, and fails where one goes that has others behind it.
        """
        if is_in_step() and any(_has_others_behind(handle) for handle in self._handles):
            return False
        while self._handles:
            self._handles[-1].remove()
            self._handles.pop()
        return True

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
            self._lost_now += self.pace is not None and are_same(self.pace.left_at, heads(self.pace.probes))
            del self.passes.losses[:-1]
            self._unused = 0
        self._unused += 1
        for one in self.followed.values():
            one.backwards += 1
            one.looked = self.passes.looks
            if one.looked and one.steps and not one.cleared:
                one.cleared, one.unclear = is_clear(one.probes)

    def _all_cleared(self) -> bool:
        """Whether the gradients of an earlier backward pass are gone, though no optimizer has used them."""
        trained = [p for one in self.followed.values() for p in one.parameters if p.requires_grad]
        return bool(trained) and all(p.grad is None for p in (trained[0], trained[len(trained) // 2], trained[-1]))

    def _backward_ends(self) -> None:
        """Measure the gradients as they come out of the backward pass, before anybody clips them."""
        if self.passes.due:
            for one in self.followed.values():
                gradients = [p.grad for p in one.parameters]
                one.raw = one.gradients.norms(gradients)
                one.marks = marks(gradients, are_plain=one.gradients.are_plain)

    # --- around the step ----------------------------------------------------------------------------------------

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        one = self.followed.get(id(optimizer))
        if one is None or one.optimizer is not optimizer:
            one = self._of(optimizer)
            if one is None:
                self.strangers[type(optimizer).__name__] += 1
                return
        if one.depth and is_inner_step(optimizer):
            one.depth += 1
            self._is_nested = True
            return
        one.depth = 1
        self.passes.close_backward()
        is_looked_at = self.passes.looks or self.passes.due
        if is_looked_at and sum(len(group["params"]) for group in optimizer.param_groups) != one.count:
            self._read_groups(one)
        scaler = scaler_of_step()
        self.scale = loss_scale(scaler) if scaler is not None and scaler.is_enabled() else None
        if self.pace is None or (one is not self.pace and self._takes_over(one, self.pace)):
            self.pace = one
        self._in_step = True
        if one.left_at:
            self._look_outside(one)
        one.has_closure = (len(args) > 1 or bool(kwargs)) and any(map(callable, (*args[1:], *kwargs.values())))
        if not one.has_closure:
            self._judge(one)
        one.sample = None
        if self.passes.due:
            one.sample = self._measured_before(one)
        self._began = perf_counter()

    def _look_outside(self, one: Followed) -> None:
        """Note whether the weights are as the last step of this optimizer left them."""
        if one is self.pace and not are_same(one.left_at, heads(one.probes)):
            self.outside.append(self.step)
        one.left_at = []

    def _takes_over(self, one: Followed, pace: Followed) -> bool:
        """Whether an optimizer stands in the place of the one that set the pace: made anew, or the only one left."""
        if np.array_equal(one.places, pace.places):
            self.followed.pop(id(pace.optimizer), None)
            return True
        one.unpaced = one.unpaced + 1 if one.pace_seen == pace.steps else 0
        one.pace_seen = pace.steps
        return one.unpaced > PATIENCE

    @property
    def is_plain(self) -> bool:
        """Whether one optimizer is followed and makes simple steps."""
        pace = self.pace
        is_simple = pace is not None and not pace.has_closure and bool(pace.probes)
        return is_simple and len(self.followed) == 1 and self.scale is None and not self._is_nested

    def take_over(self, began: float) -> None:
        """Go on with a step that was noted elsewhere and has begun."""
        if self.pace is not None:
            self._judge(self.pace)
            self.pace.depth, self._in_step, self._began = 1, True, began

    def count_one(self) -> None:
        """Count a step of one backward pass that was noted elsewhere."""
        if self.pace is not None:
            self.pace.steps += 1
            self.per_step[1] += 1
            self.step += 1

    def _judge(self, one: Followed) -> None:
        if not one.probes or (self.passes.looks and one.probes[0].grad is None):
            found = [p for p in one.parameters if p.grad is not None]
            one.probes = [found[i * (len(found) - 1) // (PROBES - 1)] for i in range(PROBES)] if found else []
        self.without_gradient += not one.probes and bool(one.parameters)
        self.without_backward += bool(self.passes.passes and not one.backwards and not self.passes.asked_gradients)
        if one.looked and one.steps and one.backwards and not one.unclear:
            self.judged += 1
            self.leftover += not one.cleared
        one.alone += self._unused > 0
        if one is self.pace:
            self.per_step[one.backwards] += 1
            self.late += bool(self.passes.passes and self.passes.step_backwards and not self.passes.fresh_backwards)

    def _measured_before(self, one: Followed) -> Sample:
        sample = Sample(self.step, one.places)
        one.measured += 1
        if not one.has_closure:
            self._take_gradients(one, sample)
        sample.before = one.views.before(one.steps)
        return sample

    def _take_gradients(self, one: Followed, sample: Sample) -> None:
        """Take the gradients as the optimizer will use them; measured again only where they were changed."""
        gradients = [p.grad for p in one.parameters]
        now = marks(gradients, are_plain=one.gradients.are_plain)
        same = one.raw is not None and one.marks == now and not self._silent_change
        if one is self.pace and self.passes.is_early and one.steps:
            # Who attacks the inputs or puts gradients together by hand needs them all.
            is_in_vain = same and not self.passes.asks_inputs
            self.lost[self._lost_now if is_in_vain else 0] += 1
        if same and one.measured > SURELY and one.measured % VERIFIED:
            sample.used = one.raw
        else:
            sample.used = one.gradients.norms(gradients)
            if same and one.raw is not None and not about_equal(one.raw, sample.used):
                self._silent_change = True
        sample.gradients, one.raw = one.raw, None
        if self.scale is not None:
            sample.scale = self.scale.detach().clone()
            pending = getattr(one.optimizer, "grad_scale", None)  # fused optimizers unscale by themselves
            sample.used_scale = pending.detach().clone() if isinstance(pending, torch.Tensor) else NO_SCALE

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        seconds = perf_counter() - self._began
        one = self.followed.get(id(optimizer))
        if one is None or one.optimizer is not optimizer:
            return
        if one.depth > 1:
            one.depth -= 1
            return
        one.depth = 0
        if one.sample is not None:
            if one.sample.used is None:  # the closure made the gradients
                one.sample.used = one.gradients.norms([p.grad for p in one.parameters])
            one.sample.after = one.views.after(one.steps + 1)
        if one.has_closure:
            self._judge(one)
        one.steps += 1
        if self.passes.is_early_at(self.step + 1):  # a later one may go the fast path, which compares nothing
            one.left_at = heads(one.probes)
        self._unused, self._in_step, self._lost_now = 0, False, 0
        one.backwards, one.cleared, one.raw = 0, False, None
        sample, one.sample = one.sample, None
        self.on_step(one, seconds, sample)


def _has_others_behind(handle: Any) -> bool:
    hooks = handle.hooks_dict_ref()
    return hooks is not None and handle.id in hooks and next(reversed(hooks)) != handle.id
