"""BatchNorm layers with unusable statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.capture import paths_of, tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.user_code import user_code

__all__ = ["NormFacts", "Norms", "batchnorm_misused", "norm_layers"]


@dataclass(frozen=True)
class NormFacts:
    """One module that keeps running statistics.

    `default` says that they are still 0 and 1; `moves` whether a pass in training mode changes them; `values` is the
    number of values that each statistic is taken over; `off` how far the statistics of the batch are from those kept,
    in standard deviations.
    """

    path: str
    module: str
    momentum: float | None
    tracks: bool
    training: bool
    default: bool
    moves: bool
    values: int
    samples: int
    off: float


@dataclass(frozen=True)
class Norms:
    """Every module that keeps running statistics, and whether a batch of one sample can be trained on.

    `last_batch` is the size of the last batch of an epoch where that can be known.
    """

    layers: tuple[NormFacts, ...]
    handed_training: bool
    batch_size: int
    last_batch: int | None
    single_fails: str


@probe
def norm_layers(sandbox: Sandbox, setup: Setup) -> Norms:
    """Run one batch in train mode and compare the running statistics."""
    layers = {path: module for path, module in paths_of(sandbox.model).items() if _normalizes(module)}
    if not layers:
        raise NotApplicable("no module normalizes over the batch")
    batch = sandbox.batch()
    modes = {path: bool(module.training) for path, module in layers.items()}
    handed = bool(sandbox.model.training)
    before = {path: _statistics(module) for path, module in layers.items()}
    counted: dict[str, tuple[int, float]] = {}

    def look(path: str, module: nn.Module, inputs: Any) -> None:
        if path in layers and path not in counted:
            tensor = first_tensor(inputs)
            if tensor is not None:
                counted[path] = _values(tensor, module), _off(tensor, module)

    single = _fails(sandbox, batch.head(1))
    again = sandbox.fresh()
    again.model.train()
    failed = _fails(again, batch, look)
    if failed and batch.size > 1:
        raise NotApplicable("the pass in train mode fails; see forward-fails")
    moved = {path: _statistics(m) for path, m in paths_of(again.model).items() if path in layers}
    facts = [
        _facts(path, module, modes[path], before[path], moved[path], counted.get(path), batch.size)
        for path, module in layers.items()
    ]
    return Norms(tuple(facts), handed, batch.size, _last_batch(setup), single)


def _normalizes(module: nn.Module) -> bool:
    """Whether it keeps the mean and variance of batches, or is made to do so and told not to."""
    return hasattr(module, "running_mean") and hasattr(module, "running_var") and hasattr(module, "momentum")


def _statistics(module: nn.Module) -> tuple[torch.Tensor, torch.Tensor] | None:
    mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
    if not isinstance(mean, torch.Tensor) or not isinstance(variance, torch.Tensor):
        return None
    if is_lazy(mean):
        return None
    return mean.detach().clone(), variance.detach().clone()


def _values(tensor: torch.Tensor, module: nn.Module) -> int:
    channels = tensor.shape[1] if tensor.dim() > 1 else 1
    per_sample = "Instance" in type(module).__name__  # each sample has statistics of its own
    return int(tensor.numel() // max(channels, 1)) // (int(tensor.shape[0]) if per_sample else 1)


def _off(tensor: torch.Tensor, module: nn.Module) -> float:
    """Return how far mean and spread of this batch are from those kept, in deviations, averaged over channels."""
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


def _fails(sandbox: Sandbox, batch: Any, look: Any = None) -> str:
    """Run one batch in training mode and give the error, if any."""
    with user_code() as tried, sandbox.mode(training=True), torch.no_grad(), tapped(sandbox.model, before=look):
        sandbox.run(batch)
    return tried.failure


def _last_batch(setup: Setup) -> int | None:
    """Return the size of the last batch of an epoch, where the loader makes batches in the usual way."""
    loader, total = setup.feed.loader, setup.feed.total
    size = getattr(loader, "batch_size", None)
    if not total or not size or getattr(loader, "drop_last", False) or not setup.feed.draws_everything:
        return None
    return int(total % size) or int(size)


LAST_BATCH, MOMENTUM = "drop-last-batch", "norm-momentum"  # patches that only fit one kind of misuse


@check(basis="statistic", explains=("train-eval-gap", "cannot-overfit-batch"))
def batchnorm_misused(
    norms: Norms,
    *,
    momentum: float = 0.9,  # in PyTorch the weight of the new batch; Keras uses the opposite convention (0.99)
    far: float = 1.0,  # standard deviations between running and batch statistics; our choice
    few: int = 4,  # samples, and values of a statistic; our choice: fewer give a poor estimate
) -> Iterator[Finding]:
    """BatchNorm gets batches of one, never updates its running statistics, or overwrites them every batch.

    nbdebug reads the settings of every layer with running statistics, runs one batch in training mode, and compares the
    running statistics before and after.

    Why it matters: BatchNorm normalizes with batch statistics in training mode and with running statistics in eval
    mode. With one sample the standard deviation is zero; with momentum 0 the running statistics stay at 0 and 1; with a
    momentum near 1 they are those of the last batch. Training then looks fine and evaluation does not, or a single
    small batch stops an epoch with an error.

    What to try: use batches of at least eight samples, drop an incomplete last one, keep momentum at 0.1, or use
    GroupNorm or LayerNorm, which do not depend on the batch.
    """
    yield from _small_batches(norms, few)
    active = [layer for layer in norms.layers if layer.tracks and layer.values]
    stuck = [
        layer for layer in active if not layer.moves and layer.default and (layer.training or norms.handed_training)
    ]
    if stuck:
        says = "never updates its running statistics: they stay at 0 and 1 in training mode"
        yield _finding(stuck, says, "bug", "momentum", stuck[0].momentum, 0.0, MOMENTUM)
    too_fast = [
        layer for layer in active if layer.momentum is not None and momentum <= layer.momentum <= 1 and layer.moves
    ]
    if too_fast:
        says = (
            f"has momentum {too_fast[0].momentum:g}, so its running statistics are almost those of the last batch alone"
        )
        yield _finding(too_fast, says, "suspect", "momentum", too_fast[0].momentum, momentum, MOMENTUM)
    frozen = [
        layer for layer in active if norms.handed_training and not layer.training and layer.default and layer.moves
    ]
    if frozen and max(layer.off for layer in frozen) > far:
        says = "is in eval mode with its initial running statistics (0 and 1), so it does not normalize"
        yield _finding(frozen, says, "suspect", "distance", max(layer.off for layer in frozen), far)


def _small_batches(norms: Norms, few: int) -> Iterator[Finding]:
    training = [layer for layer in norms.layers if (layer.training or not norms.handed_training) and layer.values]
    if not training:
        return
    if norms.batch_size == 1 and "Instance" not in training[0].module:
        says = "normalizes over a batch of one sample"
        yield _finding(training, says, "bug" if training[0].values <= 1 else "suspect", "batch size", 1, 2)
    elif norms.last_batch == 1 and norms.single_fails:
        says = f"gets a single sample in the last batch of every epoch and fails ({norms.single_fails})"
        yield _finding(training, says, "bug", "last batch", 1, 2, LAST_BATCH)
    elif norms.batch_size < few and min(layer.values for layer in training) < few:
        says = f"normalizes over only {min(layer.values for layer in training)} values per channel"
        yield _finding(training, says, "note", "values", min(layer.values for layer in training), few)


def _finding(
    layers: list[NormFacts],
    says: str,
    severity: Severity,
    what: str,
    value: float | None,
    limit: float,
    patch: str = "",
) -> Finding:
    more = f" (and {len(layers) - 1} more)" if len(layers) > 1 else ""
    return Finding(
        f"`{layers[0].path}` ({layers[0].module}){more} {says}.",
        where=layers[0].path,
        severity=severity,
        evidence={
            what: value,
            "layers": [layer.path for layer in layers[:20]],
            "threshold": limit,
            "source": "Ioffe and Szegedy (2015); the documentation of torch.nn.BatchNorm",
        },
        remedies=(
            Remedy(
                "Drop the incomplete last batch.",
                "DataLoader(…, drop_last=True)",
                Patch(LAST_BATCH) if patch == LAST_BATCH else None,
            ),
            Remedy(
                "Set the momentum to 0.1.",
                "nn.BatchNorm2d(channels, momentum=0.1)",
                Patch(MOMENTUM) if patch == MOMENTUM else None,
            ),
            Remedy("Replace BatchNorm with GroupNorm.", "nn.GroupNorm(8, channels)", Patch("group-norm")),
        ),
    )
