"""The exchanges of scales: inputs and targets that are standardized, weights that are initialized as usual."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from nbdebug.core.remedy import Patch, in_code
from nbdebug.engine.differential.exchange import Exchange
from nbdebug.engine.differential.exchange import one as _one
from nbdebug.experiments.trial_training import HeldOut
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["is_far_off", "off_scale", "scales", "start"]

MEANS = "x = adjacency @ x / adjacency.sum(-1, keepdim=True)"
FAR_OFF = (0.1, 10.0)  # times PyTorch's default standard deviation; our choice
SHIFTED = 0.5  # standard deviations: so far from zero is the mean of no usual initialization


def scales(data: HeldOut) -> Iterator[Exchange]:
    """Return what standardizes inputs, targets and both, where they are far from unit scale."""
    of_inputs, x = _worst(data, lambda batch: batch.inputs, column_ratio=30.0)
    of_targets, y = _worst(data, lambda batch: batch.targets, least=0.02)
    inputs = ("Standardize the inputs.", "x = (x - mean) / std", Patch("standardize-inputs"))
    targets = ("Standardize the targets.", "y = (y - y_mean) / y_std", Patch("standardize-targets"))
    first, second = ("unnormalized-inputs", "unscaled-targets")
    if of_inputs > 1:
        yield _one("standardized inputs", first, "The inputs are not normalized", x, inputs)
    if of_targets > 1:
        yield _one("standardized targets", second, "The targets are far from unit scale", y, targets)
    if min(of_inputs, of_targets) > 1:
        cause, name = "Inputs and targets are both far from unit scale", "standardized inputs and targets"
        worse, other = ((first, x), second) if of_inputs >= of_targets else ((second, y), first)
        yield _one(name, worse[0], cause, worse[1], inputs, targets, also=other)


def _worst(data: HeldOut, part: Callable[[Batch], dict[str, torch.Tensor]], **limits: float) -> tuple[float, str]:
    """Return how far the worst of these tensors is off scale, and its name."""
    found: dict[str, list[torch.Tensor]] = {}
    for batch in data.train[:16]:
        for name, tensor in part(batch).items():
            if tensor.is_floating_point() and tensor.dim() > 0:
                found.setdefault(name, []).append(tensor.detach().double().reshape(len(tensor), -1))
    same = {name: rows for name, rows in found.items() if len({r.shape[1] for r in rows}) == 1}
    return max(((off_scale(torch.cat(rows), **limits), name) for name, rows in same.items()), default=(0.0, "batch"))


def off_scale(values: torch.Tensor, least: float = 0.05, column_ratio: float = math.inf) -> float:
    """Return by which factor these values exceed the limits of what needs no standardization; up to 1 they do not.

    Columns are compared by their ranges: a pixel that is rarely lit hardly varies, and is on the scale of the others.
    """
    values = values[torch.isfinite(values).all(1)]
    if len(values) < 2:
        return 0.0
    mean, std = float(values.mean().abs()), float(values.std())
    factors = [mean / 10, std / 5, least / std if std else math.inf, mean / (5 * std) if std else math.inf]
    ranges = values.max(0).values - values.min(0).values
    ranges = ranges[ranges > 1e-6 * ranges.max()]
    if len(ranges) > 0 and values.shape[1] <= 512:
        factors.append(float(ranges.max() / ranges.min()) / column_ratio)
    return max(factors)


def start(sandbox: Sandbox) -> Iterator[Exchange]:
    """Return PyTorch's default initialization, where the weights of a layer are off scale, and then scaled outputs."""
    odd = [name for name, scale in _weight_scales(sandbox.model) if not 0.45 <= scale <= 3.2]
    if odd:
        code = f"nn.init.kaiming_uniform_({in_code(odd[0])}.weight, a=5 ** 0.5)"
        yield _one(
            "PyTorch's default initialization", "initialization-off-scale",
            f"The initial weights of {len(odd)} layers are off scale", odd[0],
            ("Initialize with PyTorch's defaults.", code, Patch("reinitialize")),
        )  # fmt: skip
    yield _one(
        "activations scaled to unit variance", "activations-off-scale",
        "Activations are far off unit scale at the start", "model",
        ("Divide sums over neighbors or positions by their number, or normalize between layers.", MEANS,
         Patch("unit-activations")),
        is_general=True,
    )  # fmt: skip


def is_far_off(sandbox: Sandbox) -> bool:
    """Whether the weights of a layer are so far off scale that no usual initialization explains it.

    GPT's and BERT's standard deviation of 0.02 is a fifth of the default of a layer with 32 inputs.
    """
    return any(not FAR_OFF[0] <= scale <= FAR_OFF[1] for _, scale in _weight_scales(sandbox.model))


def _weight_scales(model: nn.Module) -> Iterator[tuple[str, float]]:
    """Return for each linear or convolution layer its standard deviation against PyTorch's default; 0 if shifted."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)) and isinstance(weight, torch.Tensor):
            values, fan_in = weight.detach().double(), weight[0].numel()
            if values.numel() > 8:
                std, mean = float(values.std()), float(values.mean().abs())
                yield name, 0.0 if mean > SHIFTED * std else std * math.sqrt(3 * fan_in)
