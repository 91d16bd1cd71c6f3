"""Finds dead units in a training: no gradient comes to them, and what they give their activation is never positive.

A ReLU may be a module or a function, so that its output is often not to be seen. But a unit that it silences for every
sample gets a gradient of exactly zero, and the bias has one for each unit: a few numbers tell which are suspicious.
Only such layers are looked at more closely, for a few passes: before a ReLU, a unit has a gradient if and only if it
was positive somewhere. Units without a gradient for another reason, as those of forbidden actions, do not obey.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.core.torch_compat import Convolution, RunningNorm, own_parameters
from nbdebug.setup.distributed.pieces import is_piece
from nbdebug.setup.nested import first_tensor
from nbdebug.watch.recorder.hooks import LayerHook
from nbdebug.watch.recorder.sampling import is_plain, sample_at_once
from nbdebug.watch.recorder.series import SilentUnits

__all__ = ["Units"]

# Modules whose units lie in the last dimension of what they give, and those that have them in the second.
_BY_LAST = (nn.Linear, nn.LayerNorm)
_BY_SECOND = (Convolution, RunningNorm, nn.GroupNorm)
_Peaks: TypeAlias = list[tuple[torch.Tensor, torch.Tensor, int]]  # highest and lowest value of each unit; samples
LEAST_UNITS = 8
EVERY = 4  # of the measured steps one is looked at
PATIENCE = 2  # looks in a row at which a unit has no gradient before it is suspicious
SHARE = 0.25  # of the units of a layer that are suspicious before it is examined; a check decides what is a problem
AGREE = 0.98  # of the units that have a gradient if and only if they were positive
ENOUGH, EXAMINATIONS = 256, 3  # samples and passes of an examination
REFUTED = 3  # times after which a layer is left alone
MOST_PEAKS = 64  # of one step


@dataclass
class _Layer:
    """One layer whose units have a bias each, and what is known of them."""

    path: str
    hook: LayerHook
    bias: torch.Tensor
    runs: np.ndarray  # looks in a row at which each unit had no gradient
    refuted: int = 0
    is_examined: bool = False
    peaks: _Peaks = field(default_factory=list)  # of the passes of this step
    dead: np.ndarray | None = None  # in all examinations so far, and in all looks since
    samples: int = 0
    examinations: int = 0
    low: float = np.inf
    high: float = -np.inf
    before: Callable[[Any], Any] | None = None  # what the hook did with an output that is written over

    @property
    def is_suspicious(self) -> bool:
        return float((self.runs >= PATIENCE).mean()) > SHARE

    @property
    def is_known(self) -> bool:
        """Whether it was examined to the end."""
        return self.samples >= ENOUGH and self.examinations >= EXAMINATIONS


class Units:
    """The units of all layers with a bias; `look` is told of every step whose layers were measured."""

    def __init__(self, hooks: Sequence[LayerHook], paths: Sequence[str], wanted: int) -> None:
        self._wanted = wanted
        self._layers = [
            _Layer(path, hook, bias, np.zeros(bias.numel(), np.int32))
            for path, hook in zip(paths, hooks, strict=True)
            if (bias := _bias_of(hook.module)) is not None
        ]
        self._seen = 0
        self._pending: list[tuple[_Layer, _Peaks]] = []  # what belongs to what was taken last
        self._taken: torch.Tensor | None = None

    def look(self) -> None:
        """Take the gradients of the biases; what was taken before is read now, when no device is waited for."""
        self._seen += 1
        examined = [layer for layer in self._layers if layer.is_examined]
        if not examined and self._seen % EVERY:
            return
        self._read()
        layers = [layer for layer in self._layers if _has_gradient(layer.bias)]
        if layers:
            with torch.no_grad():
                gradients = [layer.bias.grad.detach() for layer in layers]  # type: ignore[union-attr]
                device = gradients[0].device
                self._taken = torch.cat([g.to(device) for g in gradients]) == 0
            self._pending = [(layer, list(layer.peaks)) for layer in layers]
            if device.type == "cpu":
                self._read()
        for layer in examined:
            layer.peaks.clear()

    def found(self) -> tuple[SilentUnits, ...]:
        """Return the layers that were examined to the end and have units that are dead now."""
        facts = []
        for layer in self._layers:
            dead = 0 if layer.dead is None else int(layer.dead.sum())
            if dead and layer.is_known:
                kind, units = type(layer.hook.module).__name__, len(layer.runs)
                facts.append(SilentUnits(layer.path, kind, units, dead, layer.samples, layer.low, layer.high))
        return tuple(facts)

    def stop(self) -> None:
        """End every examination, so that the hooks are as they were."""
        for layer in self._layers:
            self._end(layer)

    def _read(self) -> None:
        if self._taken is None:
            return
        silent, self._taken = self._taken.cpu().numpy(), None
        pending, self._pending = self._pending, []
        if silent.all():  # a step from which nothing was learned
            return
        start = 0
        for layer, peaks in pending:
            own = silent[start : start + len(layer.runs)]
            start += len(layer.runs)
            layer.runs = np.where(own, layer.runs + 1, 0)
            if layer.dead is not None:
                layer.dead &= own
            if layer.is_examined:
                self._examine(layer, own, peaks)
            elif layer.is_suspicious and not layer.is_known and layer.refuted < REFUTED:
                self._begin(layer)

    def _begin(self, layer: _Layer) -> None:
        """Look at what this layer gives, from the next pass on that is measured."""
        layer.is_examined, layer.before = True, layer.hook.take
        layer.dead, layer.samples, layer.examinations, layer.low, layer.high = None, 0, 0, np.inf, -np.inf
        then, by_last = layer.before or sample_at_once(self._wanted), isinstance(layer.hook.module, _BY_LAST)
        peaks = layer.peaks
        peaks.clear()

        def take(output: Any) -> Any:
            tensor = first_tensor(output)
            if len(peaks) < MOST_PEAKS and tensor is not None and is_plain(tensor) and tensor.dim() > 1:
                with torch.no_grad():
                    units = tensor.detach().movedim(-1 if by_last else 1, 0).flatten(1)
                    peaks.append((units.amax(1), units.amin(1), len(tensor)))  # tokens and pixels are no samples
            return then(output)

        layer.hook.take = take

    def _examine(self, layer: _Layer, silent: np.ndarray, taken: _Peaks) -> None:
        """Hold who had no gradient against who was never positive."""
        peaks = [(high.float().cpu().numpy(), low.float().cpu().numpy(), count) for high, low, count in taken]
        peaks = [peak for peak in peaks if len(peak[0]) == len(silent)]
        if not peaks:
            return
        never = np.max([high for high, _, _ in peaks], axis=0) <= 0
        if (never == silent).mean() < AGREE:
            layer.refuted += 1
            layer.runs[:] = 0
            layer.dead = None
            self._end(layer)
            return
        dead = never & silent
        layer.dead = dead if layer.dead is None else layer.dead & dead
        layer.samples += sum(count for _, _, count in peaks)
        layer.examinations += 1
        if dead.any():
            layer.high = max(layer.high, *(float(high[dead].max()) for high, _, _ in peaks))
            layer.low = min(layer.low, *(float(low[dead].min()) for _, low, _ in peaks))
        if layer.is_known:
            self._end(layer)

    def _end(self, layer: _Layer) -> None:
        if layer.is_examined:
            layer.is_examined, layer.hook.take, layer.before = False, layer.before, None
            layer.peaks.clear()


def _bias_of(module: nn.Module) -> torch.Tensor | None:
    """Return the bias that has one number for each unit; None where there is none, or one that pruning made."""
    bias = own_parameters(module).get("bias")
    if bias is None or is_piece(bias) or bias.dim() != 1 or bias.numel() < LEAST_UNITS or is_lazy(bias):
        return None
    return bias if isinstance(module, (*_BY_LAST, *_BY_SECOND)) else None


def _has_gradient(bias: torch.Tensor) -> bool:
    gradient = bias.grad
    return gradient is not None and gradient.layout is torch.strided and is_plain(gradient)
