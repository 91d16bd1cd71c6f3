"""Which target an output is compared with, and what kind of values it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import torch

from nbdebug.experiments.loss_family import Family
from nbdebug.experiments.loss_of_outputs import LossBox
from nbdebug.setup import Batch
from nbdebug.setup.nested import Path

__all__ = ["TargetKind", "is_likelihood", "is_wanted", "paired_target", "target_kind"]


@dataclass(frozen=True)
class TargetKind:
    """What one target tensor holds, over several batches.

    `integral` says that all values are whole numbers; `one_hot`, `many_hot` are the shares of rows of 0 and 1 with
    exactly one and with another number of ones. `order_p` is the
    p-value of "classes with neighboring numbers have inputs that are more alike", where it could be tested.
    """

    name: str
    shape: tuple[int, ...]
    integral: bool
    distinct: int
    low: float
    high: float
    evenness: float = math.nan
    one_hot: float = 0.0
    many_hot: float = 0.0
    order_p: float | None = None


ROWS = 512  # class centers are taken over so many samples
SHUFFLES = 499


def paired_target(box: LossBox, path: Path, family: Family) -> tuple[str, torch.Tensor | None]:
    """Return the target that the loss compares this output with: the one it was seen to want, or the only one."""
    if box.taped is not None:
        return box.taped.target or ("", None)
    candidates = _candidates(box.batch)
    if box.place == "model" and not box.batch.targets:  # a model with its own loss is given the targets as inputs
        candidates = {name: t for name, t in box.batch.inputs.items() if not t.is_complex() and t.dtype != torch.bool}
    for name, target in candidates.items():
        if is_wanted(family, target):
            return name, target
    fitting = {name: t for name, t in candidates.items() if box.place != "model" or not t.is_floating_point()}
    if len(fitting) == 1 and len(box.heads) == 1:
        return next(iter(fitting.items()))
    return "", None


def _candidates(batch: Batch) -> dict[str, torch.Tensor]:
    found = {name: tensor for name, tensor in batch.targets.items() if not tensor.is_complex()}
    if not found and isinstance(batch.target, torch.Tensor) and not batch.target.is_complex():
        return {"": batch.target}  # the input itself
    return found


def is_wanted(family: Family, target: torch.Tensor) -> bool:
    """Whether what the loss pulls the outputs to is this target."""
    if family.wanted is None or family.active is None or not bool(family.active.any()):
        return False
    wanted, active = family.wanted, family.active
    if family.name == "softmax" and family.dim is not None and target.dim() == wanted.dim() - 1:
        rows = active.select(family.dim, 0)
        if target.shape != rows.shape:
            return False
        return float((wanted.argmax(family.dim) == target)[rows].double().mean()) > 0.9
    if target.numel() != wanted.numel():
        return False
    values = target.reshape(wanted.shape).double()
    spread = float(values.std(correction=0)) if values.numel() > 1 else 0.0
    close = (wanted - values).abs() <= 0.05 * max(spread, 1e-3)
    return float(close[active].double().mean()) > 0.9


def is_likelihood(family: Family, target: torch.Tensor) -> bool:
    """Whether what is picked out of the output is weighed by its class, and not by a reward for each sample.

    What is not picked at all must have a target of its own, as padding has.
    """
    if family.name != "linear" or family.weight is None or family.active is None or family.weight.dim() < 2:
        return True
    rows = family.weight.sum(1) if target.shape == family.weight.sum(1).shape else family.weight.sum(-1)
    if target.shape != rows.shape or target.is_floating_point():
        return True
    picked = rows > 0
    if bool(torch.isin(target[~picked], target[picked]).any()):
        return False
    ranges = [
        (float(rows[target == label].min()), float(rows[target == label].max())) for label in target[picked].unique()
    ]
    return all(high <= 1.01 * low for low, high in ranges)


def target_kind(name: str, batches: list[Batch], tensors: list[torch.Tensor] | None = None) -> TargetKind:
    """Look at one target over several batches; `tensors` are its values where the loss receives others than stored."""
    every = [{**batch.inputs, **_candidates(batch)} for batch in batches]
    tensors = tensors or [tensors[name] for tensors in every if name in tensors]
    first = tensors[0]
    values = torch.cat([t.detach().double().flatten() for t in tensors])
    values = values[torch.isfinite(values)]
    distinct, counts = values.unique(return_counts=True)
    one_hot, many_hot = _rows(tensors)
    integral = bool((values == values.round()).all())
    return TargetKind(
        name=name,
        shape=tuple(first.shape),
        integral=integral,
        distinct=int(distinct.numel()),
        low=float(values.min()) if values.numel() else math.nan,
        high=float(values.max()) if values.numel() else math.nan,
        evenness=float(counts.min() / counts.double().mean()) if counts.numel() else math.nan,
        one_hot=one_hot,
        many_hot=many_hot,
        order_p=_order(batches, tensors, distinct) if integral and 4 <= distinct.numel() <= 50 else None,
    )


def _rows(tensors: list[torch.Tensor]) -> tuple[float, float]:
    """Return the shares of rows of 0 and 1 with exactly one, and with another number of ones."""
    if any(t.dim() < 2 or t.shape[1] < 2 for t in tensors):
        return 0.0, 0.0
    if not all(bool(((t == 0) | (t == 1)).all()) for t in tensors):
        return 0.0, 0.0
    sums = torch.cat([t.detach().double().sum(1).flatten() for t in tensors])
    return float((sums == 1).double().mean()), float((sums != 1).double().mean())


def _order(batches: list[Batch], tensors: list[torch.Tensor], distinct: torch.Tensor) -> float | None:
    """Test whether classes whose numbers are near each other have inputs that are near each other."""
    inputs = [next((t for t in b.inputs.values() if t.is_floating_point() and t.dim() > 1), None) for b in batches]
    if any(x is None or t.numel() != x.shape[0] for x, t in zip(inputs, tensors, strict=True)):
        return None
    if len({tuple(x.shape[1:]) for x in inputs if x is not None}) > 1:
        return None  # sequences of another length in each batch
    rows = torch.cat([x.detach().double().flatten(1) for x in inputs if x is not None])[:ROWS]
    labels = torch.cat([t.detach().double().flatten() for t in tensors])[:ROWS]
    seen = [value for value in distinct.tolist() if bool((labels == value).any())]
    if len(seen) < 4 or not bool(torch.isfinite(rows).all()):
        return None
    rows = (rows - rows.mean(0)) / rows.std(0, correction=0).clamp_min(1e-9)
    centers = torch.stack([rows[labels == value].mean(0) for value in seen])
    far, numbers = torch.cdist(centers, centers), torch.tensor(seen, dtype=torch.float64)

    one, other = torch.triu_indices(len(seen), len(seen), 1)
    orders = _orders(len(seen))
    gaps = (numbers[orders[:, one]] - numbers[orders[:, other]]).abs()
    gaps, apart = gaps - gaps.mean(1, keepdim=True), far[one, other] - far[one, other].mean()
    agreement = (gaps @ apart) / (gaps.norm(dim=1) * apart.norm())
    return float((agreement >= agreement[0] - 1e-12).double().mean())


def _orders(count: int) -> torch.Tensor:
    """Return the order that is, and others: all of them, or some by chance."""
    if count <= 5:
        return torch.tensor(list(permutations(range(count))))
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.rand(SHUFFLES, count, generator=generator).argsort(1)
    return torch.cat([torch.arange(count)[None], shuffled])
