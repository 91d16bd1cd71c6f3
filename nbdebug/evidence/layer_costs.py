"""What does every module take in, give out, and cost?"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils.flop_counter import FlopCounterMode

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.experiments.capture import paths_of, tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup.nested import first_tensor, tensors_in
from nbdebug.setup.user_code import user_code

__all__ = ["LayerCost", "LayerCosts", "layer_costs"]


@dataclass(frozen=True)
class LayerCost:
    """One module: what goes in and out, and what it costs. Seconds include what it calls."""

    path: str
    module: str
    depth: int
    is_leaf: bool
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    parameters: int  # its own and those of what it holds
    trainable: int
    seconds: float
    flops: int | None
    output_bytes: int
    parameter_bytes: int
    calls: int
    order: int = -1  # of its first call among the innermost modules; -1 where it is none of them
    sources: tuple[str, ...] = ()  # the innermost modules that it takes from


@dataclass(frozen=True)
class LayerCosts:
    """Every module of a model in the order of definition; one that was not called has no calls."""

    layers: tuple[LayerCost, ...]
    samples: int
    device: str
    training: bool


PASSES = 3  # the fastest counts, because everything else that runs only makes it slower


@dataclass
class _Meter:
    """The shapes and the time of every module in one pass."""

    synchronize: Callable[[], Any]
    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[tuple[tuple[int, ...], ...], tuple[int, ...], int]] = field(default_factory=dict)
    _open: list[float] = field(default_factory=list)

    def before(self, path: str, module: nn.Module, inputs: Any) -> None:
        """Start the clock."""
        self.synchronize()
        self._open.append(time.perf_counter())

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Stop the clock, and note what went in and out."""
        self.synchronize()
        began = self._open.pop() if self._open else time.perf_counter()
        self.seconds[path] = self.seconds.get(path, 0.0) + time.perf_counter() - began
        self.calls[path] = self.calls.get(path, 0) + 1
        made = first_tensor(output)
        size = sum(t.numel() * t.element_size() for t in tensors_in(output) if not t.is_nested)
        shape = tuple(int(n) for n in made.shape) if made is not None and not made.is_nested else ()
        given = tuple(tuple(int(n) for n in t.shape) for t in tensors_in(inputs) if not t.is_nested)
        self.shapes[path] = given, shape, size


@probe
def layer_costs(sandbox: Sandbox, control: Control) -> LayerCosts:
    """Measure output shape, time, FLOPs and memory of every module on one batch."""
    batch = sandbox.batch()

    def run() -> None:
        sandbox.run(batch) if sandbox.compute_loss is not None else sandbox.forward(batch)

    synchronize = torch.cuda.synchronize if sandbox.device.type == "cuda" else _nothing
    with torch.no_grad():
        run()  # the first pass of all allocates and compiles
        meters = []
        for number in range(PASSES):
            control.progress(number / (PASSES + 1), "timing every module")
            meters.append(_Meter(synchronize))
            with tapped(sandbox.model, after=meters[-1].after, before=meters[-1].before):
                run()
        flops = _flops(sandbox, run)
    flow = Flow()
    with torch.enable_grad(), tapped(sandbox.model, after=flow.after, before=flow.before):
        run()
    layers = tuple(_cost(path, module, meters, flops, flow) for path, module in paths_of(sandbox.model).items())
    return LayerCosts(layers, batch.size, str(sandbox.device), sandbox.model.training)


def _nothing() -> None:
    """Nothing has to be waited for on the CPU."""


def _flops(sandbox: Sandbox, run: Callable[[], None]) -> dict[str, int]:
    """Count operations module by module; some operations cannot be counted, and then none are shown."""
    counter = FlopCounterMode(display=False)
    with user_code(passing=()) as tried, counter:
        run()
    if tried.failure:
        return {}
    root = type(sandbox.model).__name__
    counted = counter.get_flop_counts()
    return {
        "model" if name == root else name.removeprefix(f"{root}."): sum(counts.values())
        for name, counts in counted.items()
        if name != "Global"
    }


def _cost(path: str, module: nn.Module, meters: list[_Meter], flops: dict[str, int], flow: Flow) -> LayerCost:
    inputs, output, size = meters[-1].shapes.get(path, ((), (), 0))
    parameters = [p for p in module.parameters() if not is_lazy(p)]
    return LayerCost(
        path=path,
        module=type(module).__name__,
        depth=0 if path == "model" else path.count(".") + 1,
        is_leaf=not any(module.children()),
        inputs=inputs,
        output=output,
        parameters=sum(p.numel() for p in parameters),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        seconds=min(meter.seconds.get(path, 0.0) for meter in meters),
        flops=flops.get(path, 0) if flops else None,
        output_bytes=size,
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        calls=meters[-1].calls.get(path, 0),
        order=flow.order.get(path, -1),
        sources=tuple(flow.sources.get(path, ())),
    )


MOST_NODES = 2000  # of autograd's graph between two modules


class Flow:
    """Hears the calls of one pass, with gradients switched on; `order` and `sources` hold what came out."""

    def __init__(self) -> None:
        self.order: dict[str, int] = {}  # of innermost calls, by their first one
        self.sources: dict[str, list[str]] = {}
        self._open: list[bool] = []  # of each running call, whether it has called another module
        self._taken: list[list[str]] = []
        self._owners: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._nodes: dict[Any, str] = {}

    def before(self, path: str, module: nn.Module, inputs: Any) -> None:
        """Note where the inputs come from, before the module changes them."""
        if self._open:
            self._open[-1] = True
        self._open.append(False)
        self._taken.append([source for tensor in tensors_in(inputs) for source in self._from(tensor)])

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Note what an innermost module gives; what holds others only passes it on."""
        taken = self._taken.pop() if self._taken else []
        if not self._open or self._open.pop():
            return
        self.order.setdefault(path, len(self.order))
        known = self.sources.setdefault(path, [])
        known += [source for source in dict.fromkeys(taken) if source not in known and source != path]
        for tensor in tensors_in(output):
            self._owners[id(tensor)] = weakref.ref(tensor), path
            if tensor.grad_fn is not None:
                self._nodes[tensor.grad_fn] = path

    def _from(self, tensor: torch.Tensor) -> list[str]:
        """Return the modules whose outputs this was computed from, the nearest ones only."""
        owner = self._owners.get(id(tensor))
        if owner is not None and owner[0]() is tensor:
            return [owner[1]]
        found: list[str] = []
        waiting: list[Any] = [tensor.grad_fn]
        seen: set[Any] = set()
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in self._nodes:
                found.append(self._nodes[node])
            else:
                waiting += [before for before, _ in node.next_functions]
        return found
