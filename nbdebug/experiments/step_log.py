"""Follow each gradient of a training step: which backward pass made it, and which optimizer step used it."""

from __future__ import annotations

import inspect
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from nbdebug.core.torch_compat import backward_id
from nbdebug.experiments.gradient_shares import GradientShares
from nbdebug.experiments.gradient_state import has_values, held_by, is_coarse, is_weighted, keeps_master
from nbdebug.experiments.input_passes import InputPasses
from nbdebug.experiments.reached_parts import Reached
from nbdebug.watch.recorder.step_hooks import hook_gradient, hook_outer_steps

__all__ = ["Clip", "Followed", "StepLog", "Steps"]

_CLIPS = {inspect.unwrap(clip).__code__: clip.__name__ for clip in (clip_grad_norm_, clip_grad_value_)}
_UNSCALE = torch.amp.GradScaler.unscale_.__code__
_LOADS = nn.Module.load_state_dict.__code__
_MOST_OF = 0.9  # of an optimizer's parameters


@dataclass
class Followed:
    """One parameter with what its gradient is made of: the backward passes since it was cleared."""

    network: str
    name: str
    tensor: torch.Tensor
    made_of: list[int] = field(default_factory=list)  # backward passes, in their order
    used: dict[int, set[int]] = field(default_factory=dict)  # by an optimizer's id: the passes that its steps used
    came: int = 0  # calls with a gradient other than zero
    came_in: int = -1  # the last of them
    asked: bool = True  # required a gradient when the calls began
    moved: bool = False  # changed in any call
    grads: int = 0  # backward passes that gave it any gradient, zeros too


@dataclass
class Steps:
    """What the steps of one optimizer did."""

    optimizer: Any
    count: int = 0
    calls: set[int] = field(default_factory=set)
    with_gradient: int = 0
    stale: int = 0  # began with gradients that an earlier step of it had used
    foreign: int = 0  # used gradients of a pass that another optimizer's step had used before
    foreign_of: Any = None
    passes: list[int] = field(default_factory=list)  # backward passes of one place in the code, for each step
    divided: bool = False  # whether the loss of any was divided or weighted, or the gradients before a step
    lost: list[float] = field(default_factory=list)  # share of low-precision values that a step leaves unchanged
    probed: int = 0  # used gradients of a pass for an input, beside those of the loss that is returned


@dataclass
class Clip:
    """One call of a function that clips gradients: what it got, and whether a step used it."""

    limit: float
    found: bool
    scaled: bool
    passes: frozenset[int]
    is_used: bool = False


class StepLog:
    """Hooks on every parameter that the step reaches, on all optimizers, and on calls that clip gradients."""

    def __init__(self, reached: Reached) -> None:
        self.reached = reached
        self.parameters: dict[int, Followed] = {}
        self.steps: dict[int, Steps] = {}
        self.clips: list[Clip] = []
        self.sites: dict[int, str] = {}
        self.divided: dict[int, bool] = {}  # by backward pass: whether its loss was divided or weighted
        self.call = -1
        self._unscaled = self._is_divided = False
        self._shares = GradientShares()
        self._inputs = InputPasses(lambda leaf: id(leaf) in self.parameters or isinstance(leaf, nn.Parameter))
        self._consumed: dict[int, set[int]] = {}  # by an optimizer's id: the backward passes that its steps used
        self._before: dict[int, torch.Tensor] = {}
        self._thread = threading.get_ident()
        self.watched: set[int] = set()  # parameters whose values after a step are kept
        self.after_step: dict[int, torch.Tensor] = {}
        self.has_loaded = False
        self.loads_of_itself: list[str] = []  # networks whose own weights are loaded into them
        self._collect()

    def _collect(self) -> None:
        for network, module in self.reached.networks.items():
            for name, parameter in module.named_parameters():
                if not is_lazy(parameter):
                    self._follow(network, name, parameter)
        for name, tensor in self.reached.tensors.items():
            self._follow("", name, tensor)
        for name, optimizer in self.reached.optimizers.items():
            for index, held in enumerate(held_by(optimizer)):
                self._follow("", f"{name}[{index}]", held)

    def _follow(self, network: str, name: str, tensor: torch.Tensor) -> None:
        if tensor.is_leaf and id(tensor) not in self.parameters:
            self.parameters[id(tensor)] = Followed(network, name, tensor, asked=tensor.requires_grad)

    @contextmanager
    def following(self) -> Iterator[StepLog]:
        """Follow the gradients and steps inside the block."""
        handles = hook_outer_steps(self._before_step, self._after_step)
        for followed in self.parameters.values():
            handles += self._hooks(followed)
        profiled, backward = sys.getprofile() is None, torch.autograd.backward
        try:
            torch.autograd.backward = self._noting(backward)
            if profiled:
                sys.setprofile(self._profile)
            yield self
        finally:
            torch.autograd.backward = backward
            if profiled:
                sys.setprofile(None)
            for handle in handles:
                handle.remove()

    def _noting(self, backward: Any) -> Any:
        """Return a backward that notes whether the loss that it starts from is divided or weighted."""

        def noting(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread:
                roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
                given = grad_tensors is not None and any(g is not None for g in _listed(grad_tensors))
                self._is_divided = given or any(is_weighted(root.grad_fn) for root in roots)
                self._inputs.begin(roots)
            return backward(tensors, grad_tensors, *args, **kwargs)

        return noting

    def begin_call(self) -> None:
        """Say that the step is called once more."""
        self.call += 1
        self._unscaled = False
        self.after_step = {}

    def end_call(self, returned: Any) -> None:
        """Say that the step has returned this."""
        for steps in self._inputs.end_call(returned):
            steps.probed += 1  # type: ignore[attr-defined]

    def held(self) -> set[int]:
        """Return the ids of all parameters that an optimizer holds which is reached or took a step."""
        optimizers = [*self.reached.optimizers.values(), *(steps.optimizer for steps in self.steps.values())]
        return {id(p) for optimizer in optimizers for p in held_by(optimizer)}

    def _hooks(self, followed: Followed) -> list[Any]:
        tensor, cleared = followed.tensor, [True]

        def arrives() -> None:
            cleared[0] = tensor.grad is None or not has_values(tensor.grad)

        return hook_gradient(tensor, arrives, lambda: self._accumulated(followed, cleared[0]))

    def _accumulated(self, followed: Followed, cleared: bool) -> None:
        number = backward_id()
        if number not in self.sites:
            self.sites[number] = _site()
            self.divided[number] = self._is_divided
            self._inputs.note(number)
        if cleared:
            followed.made_of.clear()
            followed.used.clear()
        followed.grads += 1
        self._shares.note(followed.tensor)
        if has_values(followed.tensor.grad):
            if number not in followed.made_of:
                followed.made_of.append(number)
            if followed.came_in != self.call:
                followed.came_in, followed.came = self.call, followed.came + 1

    def _before_step(self, optimizer: Any) -> None:
        steps = self.steps.setdefault(id(optimizer), Steps(optimizer))
        steps.count += 1
        steps.calls.add(self.call)
        own = [self.parameters[id(p)] for p in held_by(optimizer) if id(p) in self.parameters]
        graded = [p for p in held_by(optimizer) if p.grad is not None and has_values(p.grad)]
        steps.with_gradient += bool(graded)
        live = [f for f in own if f.tensor.grad is not None and f.made_of and has_values(f.tensor.grad)]
        self._judge(steps, live, len(own))
        for followed in live:
            followed.used.setdefault(id(optimizer), set()).update(followed.made_of)
        used = {number for f in live for number in f.made_of}
        for clip in self.clips:
            clip.is_used = clip.is_used or bool(clip.passes & used)
        self._before = {id(p): p.detach().clone() for p in held_by(optimizer) if is_coarse(p)}

    def _judge(self, steps: Steps, live: list[Followed], count: int) -> None:
        """Count gradients that a step uses again, and those that another optimizer's step has used before."""
        own = id(steps.optimizer)
        stale = [f for f in live if f.used.get(own, set()) & set(f.made_of) and set(f.made_of) - f.used[own]]
        steps.stale += bool(stale)
        self._inputs.judge(steps, [f.made_of for f in live], self._consumed.get(own, set()))
        foreign: dict[int, int] = {}
        for followed in live:
            newest = self.sites[followed.made_of[-1]]
            old = {n for n in followed.made_of[:-1] if self.sites[n] not in (newest, "")}
            for other, consumed in self._consumed.items():
                if other != own and newest and old & (consumed - self._consumed.get(own, set())):
                    foreign[other] = foreign.get(other, 0) + 1
        other, number = max(foreign.items(), key=lambda item: item[1], default=(0, 0))
        if number >= _MOST_OF * count:  # a trunk that two losses train is meant to get both
            steps.foreign, steps.foreign_of = (
                steps.foreign + bool(number),
                self.steps[other].optimizer if number else None,
            )
        if live:
            newest = self.sites[live[0].made_of[-1]]
            same = [n for n in live[0].made_of if self.sites[n] == newest]
            steps.passes.append(len(same))
            steps.divided = steps.divided or any(self.divided[n] for n in same)
        self._consumed.setdefault(own, set()).update(number for f in live for number in f.made_of)

    def _after_step(self, optimizer: Any) -> None:
        self._unscaled = False
        self.after_step.update({id(p): p.detach().clone() for p in held_by(optimizer) if id(p) in self.watched})
        moved = kept = 0
        steps = self.steps[id(optimizer)]
        steps.divided = steps.divided or self._shares.are_reduced(p for p in held_by(optimizer) if p.grad is not None)
        for p in held_by(optimizer):
            before = self._before.pop(id(p), None)
            if before is not None and p.grad is not None and not keeps_master(optimizer, p):
                graded = p.grad != 0
                moved += int(graded.sum())
                kept += int(((p.detach() == before) & graded).sum())
        if moved:
            steps.lost.append(kept / moved)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        if frame.f_code is _UNSCALE:
            self._unscaled = True
        elif frame.f_code is _LOADS:
            self._loaded(frame.f_locals.get("self"), frame.f_locals.get("state_dict"))
        elif frame.f_code in _CLIPS:
            values = frame.f_locals
            self._clipped(values.get("parameters"), values.get("max_norm", values.get("clip_value", math.inf)))

    def _loaded(self, module: Any, state: Any) -> None:
        """Note a network that is given nothing but the tensors that it holds: that changes nothing."""
        self.has_loaded = True
        own = {tensor.data_ptr() for tensor in module.state_dict(keep_vars=True).values() if tensor.numel()}
        given = {tensor.data_ptr() for tensor in state.values() if isinstance(tensor, torch.Tensor) and tensor.numel()}
        if own and own == given:
            parts = (
                (network, path, part)
                for network, root in self.reached.networks.items()
                for path, part in root.named_modules()
                if part is module
            )
            for network, path, _ in parts:
                self.loads_of_itself.append(path if network == "model" and path else f"{network}.{path}".rstrip("."))
                return

    def _clipped(self, parameters: Any, limit: Any) -> None:
        given = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        if not isinstance(given, (list, tuple)):  # a generator would be used up
            code_found = [f for f in self.parameters.values() if f.tensor.grad is not None]
        else:
            code_found = [self.parameters[id(p)] for p in given if id(p) in self.parameters]
        live = [f for f in code_found if f.tensor.grad is not None and has_values(f.tensor.grad)]
        self._shares.settle(f.tensor for f in live)  # a bound is no average
        fresh = [f for f in live if f.made_of and not any(f.made_of[-1] in used for used in f.used.values())]
        passes = frozenset(number for f in fresh for number in f.made_of)
        scaled = not self._unscaled and any(
            s.is_enabled() and s.get_scale() > float(limit) for s in self.reached.scalers
        )
        self.clips.append(Clip(float(limit), bool(live), scaled, passes))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _site() -> str:
    """Return the place in the user's code whose backward pass runs; empty where it runs in another thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        function = frame.f_globals.get("__name__", "")
        if not function.startswith(("torch.", "nbdebug.")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
