"""Who changed a value in place that the backward pass still needs, and who keeps a graph from one batch to the next."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import REGISTRIES, TorchDispatchMode, schema_of, write_count
from nbdebug.experiments.capture import CallStack, paths_of, tapped
from nbdebug.experiments.source_lines import line_now
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.tensor_memory import address_of

__all__ = ["Mutation", "find_mutation", "held_graphs"]


@dataclass(frozen=True)
class Mutation:
    """An operation in place, and the place that needed the value as it was."""

    operation: str
    where: str
    source: str
    needed_by: str


@dataclass
class _Log:
    """What was saved for the backward pass, and what was written in place, in one common order."""

    place: Callable[[], str]
    saved: list[tuple[int, torch.Tensor, int, str]] = field(default_factory=list)
    written: list[tuple[int, int, str, str, str]] = field(default_factory=list)
    clock: int = 0

    def save(self, tensor: torch.Tensor) -> torch.Tensor:
        self.clock += 1
        self.saved.append((self.clock, tensor, write_count(tensor), self.place()))
        return tensor

    def write(self, tensor: torch.Tensor, operation: str) -> None:
        self.clock += 1
        self.written.append((self.clock, address_of(tensor), operation, self.place(), line_now()))


class _WriteWatch(TorchDispatchMode):
    """Notes every operation that writes into one of its arguments."""

    def __init__(self, log: _Log) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.log = log

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if schema_of(func).is_mutable:
            for value, argument in zip(args, schema_of(func).arguments, strict=False):
                alias = argument.alias_info
                if alias is not None and alias.is_write and isinstance(value, torch.Tensor):
                    self.log.write(value, func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def find_mutation(sandbox: Sandbox, batch: Batch, error: str) -> Mutation | None:
    """Run the pass again and find the write that came after a value was saved for the backward pass."""
    stack = CallStack()
    log = _Log(lambda: stack.innermost[0] if stack.innermost else "loss_fn" if stack.done else "model")
    shape = re.search(r"\[torch\.\w+ \[([\d, ]*)\]", error)
    with (
        tapped(sandbox.model, after=stack.leave, before=stack.enter),
        torch.autograd.graph.saved_tensors_hooks(log.save, lambda tensor: tensor),
        _WriteWatch(log),
    ):
        sandbox.run(batch)
    spoilt = [entry for entry in log.saved if write_count(entry[1]) != entry[2]]
    if shape is not None:
        wanted = [int(n) for n in shape[1].split(",") if n.strip()]
        spoilt = [e for e in spoilt if list(e[1].shape) in (wanted, wanted[::-1])] or spoilt
    for when, tensor, _, needed_by in spoilt:
        for at, address, operation, where, source in log.written:
            if at > when and address == address_of(tensor):
                return Mutation(operation, where, source, needed_by)
    return None


def held_graphs(model: nn.Module) -> list[str]:
    """Name the attributes that keep a tensor with its graph, as `lstm.hidden` does from one batch to the next."""
    return [
        f"{path}.{name}"
        for path, module in paths_of(model).items()
        for name, value in vars(module).items()
        if name not in REGISTRIES and any(t.grad_fn is not None for t in tensors_in(value))
    ] + [f"{name}" for name, buffer in model.named_buffers() if buffer.grad_fn is not None]
