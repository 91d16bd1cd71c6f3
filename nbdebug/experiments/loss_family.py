"""Recognize a loss by how its gradient answers, not by its name.

For a cross-entropy of logits the gradient is k·(softmax(output) − target): whatever the targets, weights, smoothing and
reduction are, the *change* of the gradient between two outputs is proportional to the change of the softmax. The same
holds with the sigmoid for the binary loss with logits, with the output itself for a squared error, and with its
reciprocals for losses of probabilities. The factor k tells the sign of the loss, the rest tells what the loss wants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from nbdebug.experiments.loss_of_outputs import LossBox
from nbdebug.setup.nested import Path

__all__ = ["Family", "recognize"]

FREE = (-3.0, -1.0, 0.5, 2.5)  # asked of every element, in an order of its own
INSIDE = (0.15, 0.35, 0.6, 0.85)
CLOSE = 0.02  # relative misfit; rounding in single precision stays below a tenth of this
ENOUGH = 0.95  # share of the elements that have to agree
PIECE = 4_000_000  # values that are worked on at a time, in double precision


@dataclass(frozen=True)
class Family:
    """What kind of function of the output the loss is.

    `name` is softmax (cross-entropy of logits along `dim`), differences (another loss that only compares scores
    along `dim`), logistic (binary with logits), linear (reads log-probabilities), probabilities (their logarithm is
    taken inside), squared, distance (smallest at some value), constant (outputs do not matter), flat (outputs matter
    but no gradient says so) or other. `wanted` is what the loss pulls the outputs to and `weight` the factor k, for
    the elements where `active`.
    """

    name: str
    dim: int | None = None
    wanted: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    active: torch.Tensor | None = None


@dataclass(frozen=True)
class _Answers:
    """Outputs that were handed in, stacked, with the losses and gradients that came back, in the outputs' precision.

    `gradients` is None unless there is a finite one for every output; `still` says that none is anything but zero. A
    gradient that is not finite, as at made-up outputs outside of a loss's domain, is no sign of a flat loss.
    """

    outputs: torch.Tensor
    losses: torch.Tensor
    gradients: torch.Tensor | None
    still: bool

    def pieces(self, dim: int | None = None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield outputs and gradients in double precision, a part of the first dimension at a time.

        The logits of a language model would otherwise take many times their memory. What is fitted along the first
        dimension itself is yielded as a whole.
        """
        assert self.gradients is not None
        if self.outputs.dim() < 2:  # the loss of a single number
            yield self.outputs.double(), self.gradients.double()
            return
        first = max(1, self.outputs.shape[1])
        rows = first if dim == 0 else max(1, PIECE * first // max(1, self.outputs.numel()))
        for one, two in zip(self.outputs.split(rows, 1), self.gradients.split(rows, 1), strict=True):
            yield one.double(), two.double()


def recognize(box: LossBox, path: Path) -> Family:
    """Ask the loss about a handful of made-up outputs and say which family it belongs to."""
    like = box.heads[path]
    free = _asked(box, path, _points(like, FREE))
    if bool(torch.isfinite(free.losses).all()):
        found = _free_family(box, path, free)
        if found.name not in ("other", "flat", "constant"):
            return found
        return _of_probabilities(box, path, like) or found
    return _of_probabilities(box, path, like) or Family("other")


def _points(like: torch.Tensor, values: tuple[float, ...]) -> torch.Tensor:
    """Return one output for each value, such that every element gets every value, each in an order of its own."""
    order = torch.rand(len(values), *like.shape, generator=torch.Generator().manual_seed(0)).argsort(0)
    return torch.tensor(values, dtype=like.dtype)[order].to(like.device)


def _asked(box: LossBox, path: Path, outputs: torch.Tensor) -> _Answers:
    answers = [_answered(box, path, output) for output in outputs]
    gradients = [gradient for _, gradient in answers if gradient is not None]
    whole = len(gradients) == len(answers) and all(bool(torch.isfinite(g).all()) for g in gradients)
    losses = torch.tensor([loss for loss, _ in answers], dtype=torch.float64)
    still = not any(bool((gradient != 0).any()) for gradient in gradients)  # NaN differs from 0
    return _Answers(outputs, losses, torch.stack(gradients) if whole else None, still)


def _answered(box: LossBox, path: Path, output: torch.Tensor) -> tuple[float, torch.Tensor | None]:
    loss, gradient = box.gradient(path, output)
    return loss, gradient.to(output.dtype) if gradient is not None else None


def _free_family(box: LossBox, path: Path, free: _Answers) -> Family:
    spread = float(free.losses.max() - free.losses.min())
    if free.still:
        return Family("constant" if spread <= 1e-6 * max(1e-12, float(free.losses.abs().max())) else "flat")
    if free.gradients is None:
        return Family("other")
    return (
        _linear(free)
        or _affine_in(free, lambda outputs: outputs, "squared")
        or _softmax(free)
        or _affine_in(free, torch.sigmoid, "logistic")
        or _distance(box, path, free)
        or _differences(free)
        or Family("other")
    )


def _linear(free: _Answers) -> Family | None:
    """A gradient that is the same everywhere: the loss picks entries out of the output, as NLLLoss does."""
    drift = largest = 0.0
    for _, gradients in free.pieces():
        mean = gradients.mean(0)
        drift = max(drift, float((gradients - mean).abs().max()))
        largest = max(largest, float(mean.abs().max()))
    if drift > 1e-4 * largest:
        return None
    mean = _joined([gradients.mean(0) for _, gradients in free.pieces()])
    return Family("linear", wanted=-mean, weight=mean.abs(), active=mean != 0)


def _affine_in(free: _Answers, feature: Callable[[torch.Tensor], torch.Tensor], name: str) -> Family | None:
    """Fit gradient = weight·(feature − wanted) for each element over the points."""
    size, is_close = _fit(free, feature, (0,), None)
    active = size > 1e-4 * size.max()
    if not bool(active.any()) or float(is_close[active].double().mean()) < ENOUGH:
        return None
    return Family(name, None, *_fitted(free, feature, (0,), None, active), active)


def _fit(
    free: _Answers, feature: Callable[[torch.Tensor], torch.Tensor], over: tuple[int, ...], dim: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how much the gradient changes between the points, and whether the fit explains that."""
    sizes, fits = [], []
    for outputs, gradients in free.pieces(dim):
        features = feature(outputs)
        centered, drift = features - features.mean(0), gradients - gradients.mean(0)
        weight = (centered * drift).sum(over, keepdim=True) / centered.square().sum(over, keepdim=True)
        misfit = (drift - weight * centered).square().sum(over).sqrt()
        sizes.append(drift.square().sum(over).sqrt())
        fits.append(misfit <= CLOSE * sizes[-1])
    return _joined(sizes), _joined(fits)


def _joined(pieces: list[torch.Tensor]) -> torch.Tensor:
    """Return the pieces along their first dimension, which a fit along that dimension itself no longer has."""
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _fitted(
    free: _Answers,
    feature: Callable[[torch.Tensor], torch.Tensor],
    over: tuple[int, ...],
    dim: int | None,
    active: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the loss wants and the weight, for every element of the output."""
    wanted, weights, begun = [], [], 0
    for outputs, gradients in free.pieces(dim):
        features, size = feature(outputs), len(outputs[0]) if outputs.dim() > 1 else 0
        rows, begun = active[begun : begun + size] if size else active, begun + size
        centered, drift = features - features.mean(0), gradients - gradients.mean(0)
        weight = (centered * drift).sum(over, keepdim=True) / centered.square().sum(over, keepdim=True)
        weight = weight.squeeze(0).expand_as(outputs[0])
        wanted.append(features.mean(0) - gradients.mean(0) / torch.where(rows, weight, torch.ones_like(weight)))
        weights.append(weight)
    return _joined(wanted), _joined(weights)


def _softmax(free: _Answers) -> Family | None:
    fits = [fit for dim in range(free.outputs.dim() - 1) if (fit := _softmax_along(free, dim)) is not None]
    return fits[-1] if fits else None


def _softmax_along(free: _Answers, dim: int) -> Family | None:
    """Fit gradient = weight·(softmax(output) − wanted) for each row along one dimension."""
    if free.outputs.shape[dim + 1] < 2:
        return None
    chances, over = partial(torch.softmax, dim=dim + 1), (0, dim + 1)
    size, is_close = _fit(free, chances, over, dim)
    rows = size > 1e-4 * size.max()
    if not bool(rows.any()) or float(is_close[rows].double().mean()) < ENOUGH:
        return None
    active = rows.unsqueeze(dim).expand_as(free.outputs[0])
    return Family("softmax", dim, *_fitted(free, chances, over, dim, active), active)


def _differences(free: _Answers) -> Family | None:
    """Whether the gradient sums to nothing along a dimension: only differences between scores matter there."""
    assert free.gradients is not None
    for dim in reversed(range(free.outputs.dim() - 1)):
        sums = free.gradients.sum(dim + 1, dtype=torch.float64).abs()
        size = free.gradients.abs().sum(dim + 1, dtype=torch.float64)
        if free.outputs.shape[dim + 1] > 1 and float(sums.max()) <= 1e-3 * float(size.max()):
            return Family("differences", dim)
    return None


def _distance(box: LossBox, path: Path, free: _Answers) -> Family | None:
    """Whether every element is pulled back from both sides; if so, halve the interval until the place is known."""
    like, far = free.outputs[0].double(), _far(box)
    low, high = torch.full_like(like, -far), torch.full_like(like, far)
    below, above = _derivative(box, path, low), _derivative(box, path, high)
    if below is None or above is None:
        return None
    active = (below != 0) | (above != 0)
    inwards, outwards = (below < 0) & (above > 0), (below > 0) & (above < 0)
    share = max(float(side[active].double().mean()) if bool(active.any()) else 0.0 for side in (inwards, outwards))
    if share < ENOUGH:
        return None
    sign = 1.0 if bool((inwards & active).any()) else -1.0
    for _ in range(24):
        middle = (low + high) / 2
        derivative = _derivative(box, path, middle)
        if derivative is None:
            return None
        low, high = torch.where(sign * derivative < 0, middle, low), torch.where(sign * derivative < 0, high, middle)
    return Family("distance", wanted=(low + high) / 2, weight=torch.full_like(like, sign), active=active)


def _far(box: LossBox) -> float:
    """Return a value well outside of all targets."""
    values = [t for t in (*box.batch.targets.values(), box.batch.target) if isinstance(t, torch.Tensor) and t.numel()]
    biggest = [float(t.detach().abs().double().nan_to_num(0, 0, 0).max()) for t in values if not t.is_complex()]
    return 10.0 * max([4.0, *biggest])


def _derivative(box: LossBox, path: Path, values: torch.Tensor) -> torch.Tensor | None:
    gradient = box.gradient(path, values.to(box.heads[path].dtype))[1]
    return gradient if gradient is not None and bool(torch.isfinite(gradient).all()) else None


def _of_probabilities(box: LossBox, path: Path, like: torch.Tensor) -> Family | None:
    """Fit gradient = −a/p + b/(1 − p): a loss that takes the logarithm of probabilities itself."""
    inside = _asked(box, path, _points(like, INSIDE))
    if inside.gradients is None or not bool(inside.gradients.any()):
        return None
    outputs, gradients = inside.outputs.double(), inside.gradients.double()
    falls, rises = -1 / outputs, 1 / (1 - outputs)
    ff, fr, rr = (falls * falls).sum(0), (falls * rises).sum(0), (rises * rises).sum(0)
    fg, rg = (falls * gradients).sum(0), (rises * gradients).sum(0)
    whole = ff * rr - fr * fr
    a, b = (rr * fg - fr * rg) / whole, (ff * rg - fr * fg) / whole
    misfit = (gradients - a * falls - b * rises).square().sum(0).sqrt()
    size = gradients.square().sum(0).sqrt()
    active = size > 1e-4 * size.max()
    if float((misfit <= CLOSE * size)[active].double().mean()) < ENOUGH:
        return None
    if not _ends_at_one(box, path, like) and not _one_a_row(active):
        return None  # a rate or a scale, whose logarithm is taken too, may be larger than 1
    total = torch.where(active, a + b, torch.ones_like(a))
    return Family("probabilities", wanted=a / total, weight=a + b, active=active)


def _ends_at_one(box: LossBox, path: Path, like: torch.Tensor) -> bool:
    """Whether the loss refuses values above 1, or does not care about them."""
    loss, gradient = box.gradient(path, torch.full_like(like, 1.5))
    return not math.isfinite(loss) or gradient is None or not bool(gradient.any() and torch.isfinite(gradient).all())


def _one_a_row(active: torch.Tensor) -> bool:
    """Whether the loss reads at most one of several entries along some dimension, as a likelihood of classes does."""
    return any(active.shape[d] > 1 and int(active.sum(d).max()) == 1 for d in range(1, active.dim()))
