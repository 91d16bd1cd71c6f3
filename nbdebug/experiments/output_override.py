"""Where the user's code takes an output of the model, and how another one is put in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup.loss import total_of
from nbdebug.setup.nested import tensors_in

__all__ = ["CalledOutput", "called_outputs", "caught", "giving"]


@dataclass(frozen=True)
class CalledOutput:
    """A module that is called from outside of the model, what it returned, and how the loss depends on that.

    `reached` says that a gradient of the loss flows back through this output; `aside` that none does, but through what
    the model computed on its own, such as a loss that it returns or keeps; `mixed` that the loss takes a number that
    the model has computed from this output. In the last two, exchanging the output does not reach all of the loss.
    """

    module: nn.Module
    output: Any
    reached: bool = False
    aside: bool = False
    mixed: bool = False


def called_outputs(sandbox: Sandbox, call: Callable[[], Any]) -> list[CalledOutput]:
    """Return the modules that are called from outside of the model, in the order of their calls."""
    seen, failed, loss = _Outputs(), None, None
    try:
        with torch.enable_grad(), tapped(sandbox.model, after=seen.after, before=seen.before):
            loss = total_of(call())
    except NbdebugError:
        raise
    except Exception as error:  # a loss that refuses the model's answer can still be asked about others
        failed = error
    try:
        if not seen.outer:
            raise failed or NotApplicable("the loss is computed without calling the model")
        if len({id(module) for module, _ in seen.outer}) < len(seen.outer):
            raise NotApplicable("the loss calls the model several times, so it is not a function of one output")
        seen.go_backward(loss)
        return [seen.called(module, output) for module, output in seen.outer]
    finally:
        seen.forget()


class _Outputs:
    """What every module returns during one run of the loss, and which of these tensors the loss depends on."""

    def __init__(self) -> None:
        self.outer: list[tuple[nn.Module, Any]] = []
        self._inner: list[int] = []
        self._depth = 0
        self._watched: dict[int, torch.Tensor] = {}
        self._reached: set[int] = set()
        self._made_of: dict[int, bool] = {}  # for each single number: whether it was computed from outputs beside it
        self._handles: list[Any] = []
        self._has_graph = False

    def before(self, path: str, module: nn.Module, inputs: Any) -> None:
        """Note that a module begins."""
        self._depth += 1

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Watch what a module returns: a training step goes backward by itself, so hooks tell what it reaches."""
        self._depth -= 1
        floats = [t for t in tensors_in(output) if t.is_floating_point()]
        traced = [t for t in floats if t.requires_grad]
        if self._depth > 0:
            self._inner += [id(t) for t in traced]
        elif any(t.dim() > 0 for t in floats):
            self.outer.append((module, output))
            heads = [t for t in traced if t.dim() > 0]
            self._made_of.update({id(t): _depends(t, heads) for t in floats if t.dim() == 0})
        for tensor in traced:
            if id(tensor) not in self._watched:
                self._watched[id(tensor)] = tensor  # kept, so that no other tensor gets its id
                self._handles.append(tensor.register_hook(self._mark(id(tensor))))

    def go_backward(self, loss: Any) -> None:
        """Follow the loss back to what it depends on, unless the run has done so itself."""
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad or not self._watched:
            return
        self._has_graph = True
        try:
            tensors = list(self._watched.values())
            found = torch.autograd.grad(loss.sum(), tensors, allow_unused=True)
        except RuntimeError:  # gone backward through already, or a checkpoint that allows backward() only
            return
        self._reached.update(id(t) for t, gradient in zip(tensors, found, strict=True) if gradient is not None)

    def called(self, module: nn.Module, output: Any) -> CalledOutput:
        """Say how the loss depends on one output."""
        floats = [t for t in tensors_in(output) if t.is_floating_point()]
        numbers = [t for t in floats if t.dim() == 0]
        if any(id(t) in self._reached for t in floats if t.dim() > 0):
            mixed = any(id(t) in self._reached and self._made_of.get(id(t), False) for t in numbers)
            return CalledOutput(module, output, reached=True, mixed=mixed)
        inside = any(name in self._reached for name in self._inner) or (self._has_graph and not self._inner)
        return CalledOutput(module, output, aside=bool(numbers) or inside)

    def forget(self) -> None:
        """Take every hook off again."""
        for handle in self._handles:
            handle.remove()
        self._watched.clear()

    def _mark(self, name: int) -> Callable[[torch.Tensor], None]:
        def hook(_: torch.Tensor) -> None:
            self._reached.add(name)

        return hook


def _depends(number: torch.Tensor, heads: list[torch.Tensor]) -> bool:
    """Whether a number that the model returns was computed from the outputs beside it."""
    if not number.requires_grad or not heads:
        return False
    try:
        found = torch.autograd.grad(number, heads, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return True  # it cannot be followed, so nothing is known about it
    return any(gradient is not None for gradient in found)


class _Seen(BaseException):
    """Ends a run of the user's code as soon as the answer is there; no handler of theirs catches it."""


def caught(module: nn.Module, call: Callable[[], Any]) -> Any:
    """Return what this module answers while the call runs; what the loss would make of it is not waited for."""
    seen: list[Any] = []

    def stop(_: nn.Module, args: Any, output: Any) -> None:
        seen.append(output)
        raise _Seen

    handle = module.register_forward_hook(stop)
    try:
        call()
    except _Seen:
        pass
    finally:
        handle.remove()
    return seen[-1] if seen else None


@contextmanager
def giving(module: nn.Module, answer: Any) -> Iterator[None]:
    """Let the module answer with this, whatever it is asked, and without computing anything."""
    if isinstance(module, torch.jit.ScriptModule):
        handle = module.register_forward_hook(lambda *_: answer)
        try:
            yield
        finally:
            handle.remove()
        return
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = lambda *args, **kwargs: answer
    try:
        yield
    finally:
        if before is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = before
