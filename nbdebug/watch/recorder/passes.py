"""Sees forward and backward passes: their beginnings and ends, what flows, and the loss that one starts from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import at_end_of_backward, backward_id, current_transform, hook_gradient
from nbdebug.setup.distributed.pieces import is_sharded, whole_of
from nbdebug.setup.nested import tensors_in
from nbdebug.watch.recorder.batches import Batches
from nbdebug.watch.recorder.graphs import GraphToken
from nbdebug.watch.recorder.hooks import MOST_CALLS, LayerHook, backward_origin, sealed
from nbdebug.watch.recorder.sampling import Block, Gather, sample_at_once

__all__ = ["Passes"]

ALL_AT_FIRST, RARELY = 64, 16  # steps: graphs and what is left of gradients are looked at in all at first, then in some
BATCHES_RARELY = 64  # of so many two batches are looked at, after those at first
SMALL = 4  # times smaller than a batch: a single state, about which a policy is asked
EVALUATED = 512  # passes without gradients whose inputs are told apart
MOST_PASSES = 4  # of one step that are measured: there may be many more where gradients are accumulated
OUTPUTS = 4  # tensors of an output at which the beginning of a backward pass is looked for
# Looked up once: between two layers of a training, every name and every call on the way is out of the cache.
_is_grad_enabled, _is_transformed = torch.is_grad_enabled, current_transform
_TENSOR = torch.Tensor


class Passes:
    """The passes since the last optimizer step; `due` says that the layers of the next one are to be measured.

    A pass without gradients is an evaluation and only counted. `guard` wraps what hooks do: whatever goes wrong inside
    ends the watching and not the training.
    """

    def __init__(
        self, layers: Sequence[nn.Module], guard: Callable[..., Any], fail: Callable[[Exception], None]
    ) -> None:
        self.calls: list[tuple[int, Any, int]] = []
        self.hooks = [LayerHook(index, module, self.calls, fail) for index, module in enumerate(layers)]
        self._sealed = sealed(layers)
        self._own = {id(hook.module): hook for hook in self.hooks}
        self._roots: list[nn.Module] = []
        self.gather = Gather(len(layers))
        self.batches, self.asked, self.asked_small = Batches(), Batches(), 0
        self.on_backward: Callable[[], None] = lambda: None
        self.on_before, self.on_after = guard(self._before), guard(self._after)
        self.on_begin, self._on_end = guard(self._backward_begins), guard(self._backward_ends)
        self.due = self.is_armed = False
        self.plan(0)
        self.training_passes = self.evaluation_passes = self.backwards = 0
        self.after_backward: Callable[[], None] = lambda: None
        self.graphs = [0]  # alive
        self.losses: list[torch.Tensor | float] = []
        self.outputs: list[Block] = []
        self._open: list[nn.Module] = []
        self._task = -1  # the backward pass that is known already
        self._began = 0.0
        self.eval_mode = False
        self.mark = perf_counter()
        self._handles: list[Any] = []
        self.passes = self.step_backwards = self.fresh_backwards = 0  # fresh ones came after a pass of this step
        self._awaited: list[dict[int, Any]] = []  # the hooks of the tensors at which a backward pass will be seen
        self.done: list[dict[int, Any]] = []  # and of those of the step before
        self.key = torch.utils.hooks.RemovableHandle.next_id  # one number that no other hook will have
        torch.utils.hooks.RemovableHandle.next_id += 1
        self.reset()

    def plan(self, step: int) -> int:
        """Say what is looked at in this step beside the layers; give how many steps there are until anything is."""
        self.is_early = self.is_early_at(step)
        self.looks = self.is_early or step % RARELY == 0
        self.looks_at_batch = self.is_early or step % BATCHES_RARELY < 2
        return 0 if self.looks or self.looks_at_batch else -step % RARELY

    @property
    def parts(self) -> int:
        """How many modules are followed by their passes."""
        return len(self._roots)

    @staticmethod
    def is_early_at(step: int) -> bool:
        """Whether this is one of the first steps, in which everything is looked at."""
        return step < ALL_AT_FIRST

    @property
    def is_plain(self) -> bool:
        """Whether this step had one pass that gave one tensor, and one backward pass from a loss that could be read."""
        return (
            self.passes == self.step_backwards == len(self._roots) == len(self._awaited) == len(self.losses) == 1
            and type(self.losses[0]) is float
            and not self.eval_mode
            and not self.asked_gradients
        )

    def take_over(self, began: float, ended: float | None, hooks: dict[int, Any]) -> None:
        """Go on with a pass that was noted elsewhere and may have ended; then `hooks` are those of what it gave."""
        self.seconds[0] += began - self.mark
        self.passes, self.eval_mode, self._began = 1, False, began
        if ended is None:
            self._open.append(self._roots[0])
        else:
            self.seconds[1] += ended - began
            self.training_passes += 1
            self._awaited.append(hooks)

    def take_over_backward(self, loss: float, began: float, task: int) -> None:
        """Go on with a backward pass that was noted elsewhere."""
        self._task = task
        self.losses.append(loss)
        self.backwards += 1
        self.step_backwards += 1
        self.fresh_backwards += 1
        self.on_backward()
        self._backward_began = began

    def reset(self) -> None:
        """Begin a new step."""
        # Graphs that ran their backward passes are about to go; others may still do it, where a step comes too early.
        self._let_go(self.done)
        self.done, self._awaited = self._awaited, []
        self.seconds = [0.0, 0.0, 0.0]  # data, forward, backward
        self.losses.clear()
        if self.outputs:
            self.outputs = []
        self.passes = self.step_backwards = self.fresh_backwards = 0
        self.asked_gradients = False
        self.asks_inputs = False  # whether anybody wants a gradient of what goes in, as an attack does
        self._backward_began = 0.0
        self._open.clear()

    def _let_go(self, held: list[dict[int, Any]]) -> None:
        """Take the hooks off the graphs."""
        for hooks in held:
            hooks.pop(self.key, None)
        held.clear()

    def attach(self, roots: Sequence[nn.Module]) -> None:
        """Look at the passes of these modules."""
        self._roots = list(roots)
        kinds = nn.parallel.DistributedDataParallel
        self.is_distributed = any(isinstance(root, kinds) or is_sharded(root) for root in roots)
        for root in roots:
            before = root.register_forward_pre_hook(self.on_before, with_kwargs=True)
            self._handles += [before, root.register_forward_hook(self.on_after)]

    def detach(self, *, all_of_them: bool = True) -> None:
        """Take every hook off, or all but those that see a pass begin and end; harmless when it is done twice."""
        while self._handles and all_of_them:
            self._handles[-1].remove()
            self._handles.pop()
        self.disarm()
        self._let_go(self._awaited)
        self._let_go(self.done)  # whoever still holds what the last pass gave
        self.reset()

    def arm(self, outermost: nn.Module) -> None:
        """Put the hooks on the layers, for this pass only: in eval mode some modules compute another way with hooks."""
        self.is_armed = True
        key = self.key
        for hook in self.hooks:
            hook.left = MOST_CALLS
            if hook.module is not outermost:  # that one is told by the hook that ends the pass
                hook.slot[key] = hook
        for whole, slots in self._sealed:
            if not whole.training:
                for slot in slots:
                    slot.pop(key, None)

    def disarm(self) -> None:
        """Take the hooks off the layers, and let go of what they hold."""
        if self.is_armed:
            key = self.key
            for hook in self.hooks:
                hook.slot.pop(key, None)
            self.is_armed = False
        self.calls.clear()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not _is_grad_enabled() or _is_transformed() is not None:
            self.disarm()  # left by a pass that did not end
            return
        if module in self._open:  # its last pass did not end, or it calls itself
            self._open.clear()
        if not self._open:
            self._begin(module, args, kwargs)
        self._open.append(module)

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        now = perf_counter()
        if self._backward_began:
            self.close_backward()
        if not self.passes:
            self.seconds[0] += now - self.mark
            if self.looks_at_batch:
                self.batches.see(args, kwargs, self.training_passes)
        if self.is_early and not self.asks_inputs:
            self.asks_inputs = any(t.requires_grad for t in (*args, *kwargs.values()) if isinstance(t, _TENSOR))
        self.passes += 1
        # Some put a part that stays as it is into eval mode, by way of the whole.
        self.eval_mode = not module.training and not any(part.training for part in module.modules())
        if self.is_armed:
            self.disarm()
        if self.due and self.passes <= MOST_PASSES * len(self._roots):
            self.arm(module)
            now = perf_counter()
        self._began = now

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if module not in self._open:
            if not torch.is_grad_enabled():
                self.evaluation_passes += 1
                if self.evaluation_passes <= EVALUATED:
                    self.asked.see(args, {}, self.training_passes)
                    self.asked_small += SMALL * self.asked.values <= self.batches.values
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
        if type(output) is not _TENSOR:
            self._await_backwards(tensors_in(output))
        elif (node := output.grad_fn) is not None:
            self._await_backward(output, node)
            if self.looks:
                self._count_graph([node])

    def _collect(self, module: nn.Module, output: Any) -> None:
        """Sample what the layers gave, and look at once from now on at outputs that were written over."""
        if id(module) in self._own:
            self._own[id(module)](module, (), output)
        self.outputs += self.gather(self.calls)
        self.disarm()
        for index in self.gather.overwritten:
            if self.hooks[index].take is None:
                self.hooks[index].take = sample_at_once(self.gather.wanted)

    def _await_backwards(self, outputs: Sequence[torch.Tensor]) -> None:
        found = [(tensor, node) for tensor in outputs if (node := tensor.grad_fn) is not None][:OUTPUTS]
        for tensor, node in found:
            self._await_backward(tensor, node)
        if found and self.looks:
            self._count_graph([node for _, node in found])

    def _await_backward(self, output: torch.Tensor, node: Any) -> None:
        """Hook a tensor by its dictionary of hooks: a handle for every step costs more than all that it is for."""
        hooks = hook_gradient(output, node)
        hooks[self.key] = self.on_begin
        self._awaited.append(hooks)

    def _count_graph(self, nodes: Sequence[Any]) -> None:
        if self.passes == 1:  # one of a step, in which a recurrent cell may be called many times
            token = GraphToken(self.graphs, 1 if self.is_early else RARELY)
            for node in nodes:  # it lives as long as any of them
                node.metadata["nbdebug"] = token

    def _backward_begins(self, gradient: Any) -> None:
        task = backward_id()
        if task == self._task:
            return
        self._task = task
        origin = backward_origin()
        if origin is not None:
            if not origin[1]:
                self.asked_gradients = True  # torch.autograd.grad: no step of its own
                return
            first = origin[0][0] if len(origin[0]) == 1 else None
            loss = whole_of(first) if isinstance(first, _TENSOR) and first.numel() == 1 else None
            if loss is not None:  # no device is waited for
                self.losses.append(loss.item() if loss.is_cpu else loss.detach().reshape(()).clone())
        self.backwards += 1
        self.step_backwards += 1
        self.fresh_backwards += self.passes > 0
        self.on_backward()
        self._backward_began = perf_counter()
        if not self.due:
            return
        if self.is_distributed:  # twice, so that it comes after the callback in which DDP adds the gradients up
            at_end_of_backward(lambda: at_end_of_backward(self._on_end))
        else:
            at_end_of_backward(self._on_end)

    def _backward_ends(self) -> None:
        self.close_backward()
        self.after_backward()

    def close_backward(self) -> None:
        """Take the time of a backward pass; unless it is measured, its end is seen when the next thing begins."""
        if self._backward_began:
            self.seconds[2] += perf_counter() - self._backward_began
            self._backward_began = 0.0
