"""Where the user's code takes an answer out of the model, and how another one is put there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.twin import Twin
from nbdebug.twin.taps import tapped, tensors_in

__all__ = ["caught", "giving", "outlets"]


def outlets(twin: Twin, call: Callable[[], Any]) -> list[tuple[nn.Module, Any]]:
    """Give the modules that are called from outside of the model, with what they answered."""
    depth, ended = [0], list[tuple[nn.Module, Any]]()

    def before(path: str, module: nn.Module, inputs: Any) -> None:
        depth[0] += 1

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        depth[0] -= 1
        if depth[0] == 0 and any(t.is_floating_point() and t.dim() > 0 for t in tensors_in(output)):
            ended.append((module, output))

    failed: Exception | None = None
    try:
        with tapped(twin.model, after=after, before=before):
            call()
    except NbdebugError:
        raise
    except Exception as error:  # a loss that refuses the model's answer can still be asked about others
        failed = error
    if not ended:
        raise failed or NotApplicable("the loss is computed without calling the model")
    if len({id(module) for module, _ in ended}) < len(ended):
        raise NotApplicable("the loss calls the model several times, so it is not a function of one output")
    return ended


class _Seen(BaseException):
    """Ends a run of the user's code as soon as the answer is there; no handler of theirs catches it."""


def caught(module: nn.Module, call: Callable[[], Any]) -> Any:
    """Give what this module answers while the call runs; what the loss would make of it is not waited for."""
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
