"""Sees forward and backward passes: their beginnings and ends, what flows, and the loss that one starts from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import nn

from nbdebug.twin.taps import tensors_in
from nbdebug.watch.batches import Batches
from nbdebug.watch.hooks import MOST_CALLS, LayerHook, backward_origin
from nbdebug.watch.sampling import Block, Gather, sample_at_once

__all__ = ["Passes"]

ALL_AT_FIRST, RARELY = 64, 16  # batches and graphs are looked at in every pass at first, then in some
MOST_PASSES = 4  # of one step that are measured: there may be many more where gradients are accumulated
OUTPUTS = 4  # tensors of an output at which the beginning of a backward pass is looked for
# Looked up once: between two layers of a training, every name and every call on the way is out of the cache.
_is_grad_enabled, _is_transformed = torch.is_grad_enabled, torch._C._functorch.peek_interpreter_stack
_TENSOR = torch.Tensor


class Passes:
    """The passes since the last optimizer step; `due` says that the layers of the next one are to be measured.

    A pass without gradients is an evaluation and only counted. `guard` wraps what hooks do: whatever goes wrong inside
    ends the watching and not the training.
    """

    def __init__(self, layers: Sequence[nn.Module], guard: Callable[..., Any], on_backward: Callable[[], None]) -> None:
        self.calls: list[tuple[int, Any, int]] = []
        self.hooks = [LayerHook(index, module, self.calls) for index, module in enumerate(layers)]
        self._own = {id(hook.module): hook for hook in self.hooks}
        self._roots: set[int] = set()
        self.gather = Gather(len(layers))
        self.batches = Batches()
        self.on_backward = on_backward
        self._on_before, self._on_after = guard(self._before), guard(self._after)
        self._on_begin, self._on_end = guard(self._backward_begins), guard(self._backward_ends)
        self.due = self.is_armed = False
        self.training_passes = self.evaluation_passes = self.backwards = 0
        self.after_backward: Callable[[], None] = lambda: None
        self.graphs = [0]  # alive
        self.eval_mode = False
        self.mark = perf_counter()
        self._handles: list[Any] = []
        self._nodes: list[Any] = []
        self._key = torch.utils.hooks.RemovableHandle.next_id  # one number that no other hook will have
        torch.utils.hooks.RemovableHandle.next_id += 1
        self.reset()

    def reset(self) -> None:
        """Begin a new step."""
        if self._nodes:
            self._let_go()
        self.seconds = [0.0, 0.0, 0.0]  # data, forward, backward
        self.losses: list[torch.Tensor | float] = []
        self.outputs: list[Block] = []
        self.passes = self.step_backwards = 0
        self.asked_gradients = False
        self._task = -1  # the backward pass that is known already
        self._backward_began = 0.0
        self._open: list[nn.Module] = []
        self._began = 0.0

    def _let_go(self) -> None:
        """Take the hooks off the graph; one that ran its backward pass is about to go anyway."""
        if self.passes != self.step_backwards:
            for handle in self._nodes:
                handle.remove()
        self._nodes.clear()

    def attach(self, roots: Sequence[nn.Module]) -> None:
        """Look at the passes of these modules."""
        self._roots = {id(root) for root in roots}
        self.is_distributed = any(type(root).__name__ == "DistributedDataParallel" for root in roots)
        for root in roots:
            before = root.register_forward_pre_hook(self._on_before, with_kwargs=True)
            self._handles += [before, root.register_forward_hook(self._on_after)]

    def detach(self) -> None:
        """Take every hook off; harmless when it is done twice."""
        while self._handles:
            self._handles[-1].remove()
            self._handles.pop()
        self.disarm()
        self.reset()

    def arm(self, outermost: nn.Module) -> None:
        """Put the hooks on the layers, for this pass only: in eval mode some modules compute another way with hooks."""
        self.is_armed = True
        key = self._key
        for hook in self.hooks:
            hook.left = MOST_CALLS
            if hook.module is not outermost:  # that one is told by the hook that ends the pass
                hook.slot[key] = hook

    def disarm(self) -> None:
        """Take the hooks off the layers, and let go of what they hold."""
        if self.is_armed:
            key = self._key
            for hook in self.hooks:
                hook.slot.pop(key, None)
            self.is_armed = False
        self.calls.clear()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not _is_grad_enabled() or _is_transformed() is not None:
            self.disarm()  # left by a pass that did not end
            return
        now = perf_counter()
        if module in self._open:  # its last pass did not end, or it calls itself
            self._open.clear()
        if not self._open:
            self._begin(module, now, args, kwargs)
        self._open.append(module)

    def _begin(self, module: nn.Module, now: float, args: Any, kwargs: Any) -> None:
        if not self.passes:
            self.seconds[0] += now - self.mark
            if self.training_passes < ALL_AT_FIRST or self.training_passes % RARELY < 2:
                self.batches.see(args, kwargs, self.training_passes)
        self.passes += 1
        self.close_backward()
        self.eval_mode = not module.training
        if self.is_armed:
            self.disarm()
        if self.due and self.passes <= MOST_PASSES * len(self._roots):
            self.arm(module)
        self._began = perf_counter()

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if module not in self._open:
            self.evaluation_passes += not torch.is_grad_enabled()
            self.mark = perf_counter()
            return
        while self._open.pop() is not module:
            continue
        if self._open:
            return
        self.seconds[1] += perf_counter() - self._began
        self.training_passes += 1
        if self.is_armed:
            self._collect(module, output)
        self._await_backward(output)

    def _collect(self, module: nn.Module, output: Any) -> None:
        """Sample what the layers gave, and look at once from now on at outputs that were written over."""
        if id(module) in self._own:
            self._own[id(module)](module, (), output)
        self.outputs += self.gather(self.calls)
        self.disarm()
        for index in self.gather.overwritten:
            if self.hooks[index].take is None:
                self.hooks[index].take = sample_at_once(self.gather.wanted)

    def _await_backward(self, output: Any) -> None:
        tensors = (output,) if isinstance(output, _TENSOR) else tensors_in(output)
        nodes = [node for t in tensors if (node := t.grad_fn) is not None][:OUTPUTS]
        for node in nodes:
            self._nodes.append(node.register_prehook(self._on_begin))
        weight = 1 if self.training_passes < ALL_AT_FIRST else RARELY
        if nodes and self.training_passes % weight == 0:
            token: Any = _Token(self.graphs, weight)
            nodes[0].metadata["nbdebug"] = token  # type: ignore[index]

    def _backward_begins(self, gradients: Any) -> None:
        task = torch._C._current_graph_task_id()
        if task == self._task:
            return
        self._task = task
        origin = backward_origin()
        if origin is not None and not origin[1]:
            self.asked_gradients = True  # torch.autograd.grad: no step of its own
            return
        self.backwards += 1
        self.step_backwards += 1
        if origin is not None and len(origin[0]) == 1 and origin[0][0].numel() == 1:
            loss = origin[0][0]
            self.losses.append(
                loss.item() if loss.is_cpu else loss.detach().reshape(()).clone()
            )  # nothing is waited for
        self.on_backward()
        self._backward_began = perf_counter()
        if not self.due:
            return
        engine = torch.autograd.Variable._execution_engine
        if self.is_distributed:  # twice, so that it comes after the callback in which DDP adds the gradients up
            engine.queue_callback(lambda: engine.queue_callback(self._on_end))
        else:
            engine.queue_callback(self._on_end)

    def _backward_ends(self) -> None:
        self.close_backward()
        self.after_backward()

    def close_backward(self) -> None:
        """Take the time of a backward pass; unless it is measured, its end is seen when the next thing begins."""
        if self._backward_began:
            self.seconds[2] += perf_counter() - self._backward_began
            self._backward_began = 0.0


class _Token:
    """Lives as long as a graph does, and counts those that live."""

    __slots__ = ("alive", "weight")

    def __init__(self, alive: list[int], weight: int) -> None:
        self.alive, self.weight = alive, weight
        alive[0] += weight

    def __del__(self) -> None:
        self.alive[0] -= self.weight
