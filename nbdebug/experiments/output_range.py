"""What the outputs of a model can be at all: turn its last layer up, down and around, and look."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import without_torch_function
from nbdebug.errors import NotApplicable
from nbdebug.experiments.capture import tapped
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in

__all__ = ["Reach", "over_samples", "reach_of"]

GAINS_OF_ALL = (2.0, 8.0, -8.0, 100.0)  # what is called last may only steer (a gate), and values come from before
GAINS = (1000.0, -1000.0, 30.0, -30.0, 3.0, -3.0)  # a free output follows these; a squashed one does not
SAME = 1e-3  # sums of probabilities may be off by rounding, in float16 too
BFLOAT16_ROUNDING = 2**-8  # twice what rounding each probability to 8 bits can add up to

Run = Callable[[Batch], "torch.Tensor | None"]


@dataclass(frozen=True)
class Reach:
    """The range and the shape that an output keeps whatever the weights of the last layer are.

    `over` are the dimensions along which all outputs sum to 1 (`probabilities`) or their exponentials do
    (`log-probabilities`); `seen` is the range of the real outputs and `clipped` the share of them that sit exactly on
    a bound; `one_sided` is the share of outputs that are on it for one sign of the last layer and not for the other.
    """

    scale: str
    over: tuple[int, ...]
    low: float
    high: float
    seen: tuple[float, float]
    clipped: float
    one_sided: float
    place: str
    module: str
    is_returned: bool = True  # by that module; else the values are made after the last module has returned


def reach_of(model: nn.Module, batches: list[Batch], run: Run) -> Reach:
    """Run real batches, then one batch with the last layer scaled, and say what all outputs have in common."""
    real = [tensor.detach().double() for batch in batches if (tensor := run(batch)) is not None]
    if not real:
        raise NotApplicable("the loss uses no tensor of this model")
    last, felt = _last_parameters(model, batches[0], run)
    turned = _with_gains(last, GAINS, batches[0], run)
    outputs_of_all = _with_gains(felt, GAINS_OF_ALL, batches[0], run)
    outputs = [*real, *turned, *outputs_of_all]
    scale, over = _scale(outputs)
    low, high = _range(outputs) if turned else (-math.inf, math.inf)  # what cannot be turned is not known
    shown = torch.cat([t.flatten() for t in real])
    clipped = float(((shown == low) | (shown == high)).double().mean()) if shown.numel() else 0.0
    found = _place(model, batches[0], run, last)
    place, module = found or ("model", _kind(model))
    one_sided = float(((turned[-2] == low) ^ (turned[-1] == low)).double().mean()) if len(turned) > 1 else 0.0
    return Reach(scale, over, low, high, _range(real), clipped, one_sided, place, module, found is not None)


def _range(outputs: list[torch.Tensor]) -> tuple[float, float]:
    kept = torch.cat([t[torch.isfinite(t)] for t in outputs])
    return (float(kept.min()), float(kept.max())) if kept.numel() else (float("nan"), float("nan"))


def _with_gains(parameters: list[torch.Tensor], gains: tuple[float, ...], batch: Batch, run: Run) -> list[torch.Tensor]:
    """Return the outputs with these parameters scaled; they are restored after."""
    before = [parameter.detach().clone() for parameter in parameters]
    outputs: list[torch.Tensor] = []
    for gain in gains if parameters else ():
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(_scaled(value, gain))
            output = run(batch)
        outputs += [output.double()] if output is not None else []
    with torch.no_grad():
        for parameter, value in zip(parameters, before, strict=True):
            parameter.copy_(value)
    return outputs


def _last_parameters(model: nn.Module, batch: Batch, run: Run) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the parameters of the last weighted layer that this output depends on, and all that it depends on."""
    called: list[nn.Module] = []
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.requires_grad_(True)
    with tapped(model, after=lambda path, module, inputs, output: called.append(module)):
        output = run(batch)
    if output is None or not output.requires_grad:
        return [], []
    known: list[torch.Tensor] = [p for p in model.parameters() if p.is_floating_point()]
    wave = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    reached = torch.autograd.grad((output * wave).sum(), known, allow_unused=True)
    felt = {id(p): p for p, gradient in zip(known, reached, strict=True) if gradient is not None}
    chosen: dict[int, torch.Tensor] = {}
    for module in reversed(called):
        own = [p for p in module.parameters(recurse=False) if id(p) in felt]
        chosen.update({id(p): p for p in own})
        if not any(module.children()) and any(p.dim() > 1 for p in own):
            break
    return [*chosen.values()] or [p for p in felt.values() if p.dim() > 1][-1:], [*felt.values()]


def _scaled(value: torch.Tensor, gain: float) -> torch.Tensor:
    """Scale a parameter; one that was started at zero gets random values first, or it would stay there."""
    return (value if bool(value.any()) else torch.randn_like(value)) * gain


def _scale(outputs: list[torch.Tensor]) -> tuple[str, tuple[int, ...]]:
    finite = [t for t in outputs if t.numel() and bool(torch.isfinite(t).all())]
    if not finite:
        return "values", ()
    dims = [d for d in range(finite[0].dim()) if all(t.shape[d] > 1 for t in finite)]
    if all(bool((t >= -SAME).all()) for t in finite):
        over = tuple(d for d in dims if all(float((t.sum(d) - 1).abs().max()) < _rounding(t) for t in finite))
        if over:
            return "probabilities", over
    if all(bool((t <= SAME).all()) for t in finite):
        over = tuple(d for d in dims if all(_is_log_softmax(t, d) for t in finite))
        if over:
            return "log-probabilities", over
    return "values", ()


def _is_log_softmax(values: torch.Tensor, dim: int) -> bool:
    logarithm = max(1.0, math.log(values.shape[dim]))  # rounding is relative, and a uniform one is this large
    return float(values.logsumexp(dim).abs().max()) < _rounding(values) * logarithm


def _rounding(values: torch.Tensor) -> float:
    """Return how far a sum of probabilities may be from 1: farther where they went through bfloat16."""
    return BFLOAT16_ROUNDING if torch.equal(values.bfloat16().to(values.dtype), values) else SAME


def over_samples(model: nn.Module, batch: Batch, run: Callable[[Batch], Any]) -> list[tuple[str, str]]:
    """Name the modules whose outputs sum to 1 over the samples, for two sizes of the batch."""
    if batch.size < 4:
        return []
    found = [_sums_over_samples(model, batch.head(size), run) for size in (batch.size, batch.size - 1)]
    inner = [item for item in found[0] if item in found[1]]
    return [(path, kind) for path, kind in inner if not any(other.startswith(f"{path}.") for other, _ in inner)]


def _sums_over_samples(model: nn.Module, batch: Batch, run: Callable[[Batch], Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        with without_torch_function():
            if any(_is_normalized_over(tensor, batch.size) for tensor in tensors_in(output)[:1]):
                found.append((path, type(module).__name__))

    with tapped(model, after=after):
        run(batch)
    return found


def _is_normalized_over(tensor: torch.Tensor, size: int) -> bool:
    if not tensor.is_floating_point() or tensor.dim() < 2 or tensor.shape[0] != size or not tensor.numel():
        return False
    values = tensor.detach().double()
    return bool((values >= 0).all()) and float((values.sum(0) - 1).abs().max()) < _rounding(values)


def _place(model: nn.Module, batch: Batch, run: Run, last: list[torch.Tensor]) -> tuple[str, str] | None:
    """Name the module that gives the output, with the last layer turned up, so that an activation behind it shows."""
    found: list[tuple[str, str] | None] = []

    def look(on: Batch) -> torch.Tensor | None:
        found.append(_giver(model, on, run))
        return None

    _with_gains(last, (10.0,), batch, look)
    return next((place for place in found if place), None) or _giver(model, batch, run)


def _kind(module: nn.Module) -> str:
    return type(module).__name__


def _giver(model: nn.Module, batch: Batch, run: Run) -> tuple[str, str] | None:
    """Name the innermost module that gave the values of the output first; a view or a transpose is the same values."""
    seen: list[tuple[str, str, list[tuple[float, ...]]]] = []

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        with without_torch_function():
            prints = [_print(tensor) for tensor in tensors_in(output) if tensor.is_floating_point()]
        seen.append((path, _kind(module), prints))

    with tapped(model, after=after):
        output = run(batch)
    wanted = _print(output) if output is not None else ()
    return next(((path, name) for path, name, prints in seen if wanted in prints), None)


def _print(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return a fingerprint that does not depend on the order of the elements."""
    values = tensor.detach().double().flatten()
    if values.layout is not torch.strided or not values.numel():
        return ()
    ordered = values.sort().values if values.numel() <= 1_000_000 else values
    ranks = torch.linspace(0, 1, values.numel(), dtype=torch.float64, device=values.device)
    return (
        float(values.numel()),
        float(ordered.min()),
        float(ordered.max()),
        round(float((ordered * ranks).sum()), 9),
    )
