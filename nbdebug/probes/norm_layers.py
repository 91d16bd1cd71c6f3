"""Look at every module that keeps running statistics."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import NormFacts, Norms
from nbdebug.registry import probe
from nbdebug.subject import Subject
from nbdebug.twin import Twin
from nbdebug.twin.taps import first_tensor, paths_of, tapped

__all__ = ["norm_layers"]


@probe
def norm_layers(twin: Twin, subject: Subject) -> Norms:
    """Run one batch in train mode and compare the running statistics."""
    layers = {path: module for path, module in paths_of(twin.model).items() if _normalises(module)}
    if not layers:
        raise NotApplicable("no module normalizes over the batch")
    batch = twin.batch()
    modes = {path: bool(module.training) for path, module in layers.items()}
    handed = bool(twin.model.training)
    before = {path: _statistics(module) for path, module in layers.items()}
    counted: dict[str, tuple[int, float]] = {}

    def look(path: str, module: nn.Module, inputs: Any) -> None:
        if path in layers and path not in counted:
            tensor = first_tensor(inputs)
            if tensor is not None:
                counted[path] = _values(tensor, module), _off(tensor, module)

    single = _fails(twin, batch.head(1))
    again = twin.fresh()
    again.model.train()
    failed = _fails(again, batch, look)
    if failed and batch.size > 1:
        raise NotApplicable("the pass in train mode fails; see forward-fails")
    moved = {path: _statistics(m) for path, m in paths_of(again.model).items() if path in layers}
    facts = [
        _facts(path, module, modes[path], before[path], moved[path], counted.get(path), batch.size)
        for path, module in layers.items()
    ]
    return Norms(tuple(facts), handed, batch.size, _last_batch(subject), single)


def _normalises(module: nn.Module) -> bool:
    """Whether it keeps the mean and variance of batches, or is made to do so and told not to."""
    return hasattr(module, "running_mean") and hasattr(module, "running_var") and hasattr(module, "momentum")


def _statistics(module: nn.Module) -> tuple[torch.Tensor, torch.Tensor] | None:
    mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
    if not isinstance(mean, torch.Tensor) or not isinstance(variance, torch.Tensor):
        return None
    if isinstance(mean, nn.UninitializedBuffer):
        return None
    return mean.detach().clone(), variance.detach().clone()


def _values(tensor: torch.Tensor, module: nn.Module) -> int:
    channels = tensor.shape[1] if tensor.dim() > 1 else 1
    per_sample = "Instance" in type(module).__name__  # each sample has statistics of its own
    return int(tensor.numel() // max(channels, 1)) // (int(tensor.shape[0]) if per_sample else 1)


def _off(tensor: torch.Tensor, module: nn.Module) -> float:
    """Give how far mean and spread of this batch are from those kept, in deviations, averaged over channels."""
    kept = _statistics(module)
    if kept is None or tensor.dim() < 2 or kept[0].numel() != tensor.shape[1]:
        return 0.0
    dims = [d for d in range(tensor.dim()) if d != 1]
    values = tensor.detach().double()
    mean, spread = values.mean(dims), values.std(dims, correction=0)
    scale = kept[1].double().clamp_min(1e-12).sqrt()
    apart = (mean - kept[0].double()).abs() / scale + (spread.clamp_min(1e-6) / scale).log().abs()
    return float(apart.mean()) if bool(torch.isfinite(apart).all()) else math.inf


def _facts(path: str, module: Any, training: bool, before: Any, after: Any, counted: Any, samples: int) -> NormFacts:
    default = before is not None and bool((before[0] == 0).all() and (before[1] == 1).all())
    moves = before is not None and after is not None and not torch.equal(before[0], after[0])
    values, off = counted or (0, 0.0)
    momentum = float(module.momentum) if isinstance(module.momentum, (int, float)) else None
    return NormFacts(
        path, type(module).__name__, momentum, before is not None, training, default, moves, values, samples, off
    )


def _fails(twin: Twin, batch: Any, look: Any = None) -> str:
    """Run one batch in training mode and give the error, if any."""
    try:
        with twin.mode(training=True), torch.no_grad(), tapped(twin.model, before=look):
            twin.run(batch)
        return ""
    except NbdebugError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _last_batch(subject: Subject) -> int | None:
    """Give the size of the last batch of an epoch, where the loader makes batches in the usual way."""
    loader, total = subject.feed.loader, subject.feed.total
    size = getattr(loader, "batch_size", None)
    if not total or not size or getattr(loader, "drop_last", False) or not subject.feed.draws_everything:
        return None
    return int(total % size) or int(size)
