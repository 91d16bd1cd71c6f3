"""Read a recording: the terms of the loss, the heads of the model, and what prediction is compared with what target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nbdebug.experiments.tape.ops import Op, Recording, Use, Value
from nbdebug.experiments.tape.taint import Taint

__all__ = ["LOSSES", "Comparison", "Term", "main_term", "terms_of"]

LOSSES = {  # torch functions that compare a prediction with a target, with the names of both arguments
    **dict.fromkeys(
        (
            "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss",
            "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss",
            "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
            "hinge_embedding_loss", "cross_entropy_loss", "nll_loss_nd", "nll_loss2d",
        ),
        ("input", "target"),
    ),
    "ctc_loss": ("log_probs", "targets"),
}  # fmt: skip
_PASSED_ON = (
    "to", "float", "double", "half", "bfloat16", "clone", "contiguous", "view", "reshape", "squeeze", "unsqueeze",
    "mean", "sum", "type", "type_as", "cpu", "cuda", "flatten", "nanmean", "__getitem__", "unbind",
)  # fmt: skip
_ADDED, _SCALED = ("add", "add_", "radd", "sub", "sub_", "rsub"), ("mul", "mul_", "rmul", "div", "div_", "rdiv")
_NEAR = ("sub", "sub_", "rsub", "dist", "cdist", "pairwise_distance", "cosine_similarity", "cosine_embedding_loss")


@dataclass(frozen=True)
class Comparison:
    """An op that takes a prediction, which has a gradient, and a target, which has none; both by number."""

    op: int
    name: str
    prediction: int
    target: int
    rank: int  # of the kind of op, the surest first

    @property
    def is_loss(self) -> bool:
        """Whether the op is a loss function of torch."""
        return self.name in LOSSES


@dataclass(frozen=True)
class Term:
    """One summand of the loss: its value with sign and factor, its heads, and what it compares."""

    number: int
    root: int
    factor: float
    value: float
    heads: tuple[int, ...] = ()
    zone: tuple[int, ...] = field(default=(), repr=False)
    comparison: Comparison | None = None

    @property
    def prediction(self) -> int | None:
        """The number of the prediction: what is compared, or the last head where there is no target."""
        if self.comparison is not None:
            return self.comparison.prediction
        return max(self.heads, default=None)


def terms_of(recording: Recording, root: int) -> list[Term]:
    """Return the summands of a loss, each read back to the heads that it was computed from."""
    found: dict[int, float] = {}
    for number, factor in _summands(recording, root, 1.0):
        found[number] = found.get(number, 0.0) + factor
    return [_read(recording, number, root, factor) for number, factor in found.items()]


def main_term(recording: Recording, terms: list[Term]) -> Term:
    """Return the term that says what is learned: target from the batch, known loss, any target, largest."""

    def order(term: Term) -> tuple[bool, bool, bool, float]:
        compared = term.comparison
        target = recording.values[compared.target] if compared is not None else None
        from_batch = target is not None and bool(target.taint & Taint.BATCH)
        return from_batch, compared is not None and compared.is_loss, compared is not None, abs(term.value)

    return max(terms, key=order)


def _summands(recording: Recording, number: int, factor: float) -> Iterator[tuple[int, float]]:
    op = recording.producer(number)
    parts = _parts(recording, op, number) if op is not None else []
    if not parts:
        yield number, factor
    for part, share in parts:
        yield from _summands(recording, part, factor * share)


def _parts(recording: Recording, op: Op, number: int) -> list[tuple[int, float]]:
    """Return what a scalar is the weighted sum of; nothing where it is made in another way."""
    values = recording.values
    graded = [n for n in op.inputs if values[n].requires_grad]
    if op.name in ("sum", "mean") and len(graded) == 1 and values[graded[0]].numel > 1:
        return _stacked(recording, graded[0], op.name)
    if not graded or any(values[n].numel != 1 for n in graded) or op.is_custom:
        return []
    if op.name in _ADDED and "alpha" not in op.kwargs:
        return _added(op, graded)
    if op.name == "neg":
        return [(graded[0], -1.0)]
    if op.name in _SCALED:
        return _scaled(recording, op)
    return [(graded[0], 1.0)] if op.name in _PASSED_ON and len(graded) == 1 else []


def _added(op: Op, graded: list[int]) -> list[tuple[int, float]]:
    signs = {"sub": (1.0, -1.0), "sub_": (1.0, -1.0), "rsub": (-1.0, 1.0)}.get(op.name, (1.0, 1.0))
    given = [*op.args, *op.kwargs.values()]
    pairs = zip(given, signs, strict=False)
    return [(part.number, sign) for part, sign in pairs if isinstance(part, Use) and part.number in graded]


def _scaled(recording: Recording, op: Op) -> list[tuple[int, float]]:
    """Return the one operand that a constant or a learned weight is multiplied with, and that factor."""
    parts = [*op.args, *op.kwargs.values()][:2]
    if len(parts) < 2 or "rounding_mode" in op.kwargs:
        return []
    for this, other in (parts, parts[::-1]):
        factor = _constant(recording, other)
        if isinstance(this, Use) and factor is not None and recording.values[this.number].requires_grad:
            divides = op.name.startswith("div") or op.name == "rdiv"
            if divides and (this is parts[1]) == (op.name != "rdiv"):
                return []
            return [(this.number, 1 / factor if divides and factor else factor)]
    return []


def _constant(recording: Recording, part: Any) -> float | None:
    if isinstance(part, (int, float)):
        return float(part)
    value = recording.values[part.number] if isinstance(part, Use) else None
    if value is None or value.numel != 1 or value.tensor is None:
        return None
    learned = bool(value.taint & Taint.PARAMETER) and not value.taint & Taint.BATCH
    return float(value.tensor.detach()) if learned or not value.requires_grad else None


def _stacked(recording: Recording, number: int, how: str) -> list[tuple[int, float]]:
    op = recording.producer(number)
    if (
        op is None
        or op.name not in ("stack", "cat", "hstack")
        or any(recording.values[n].numel != 1 for n in op.inputs)
    ):
        return []
    factor = 1.0 if how == "sum" else 1 / max(len(op.inputs), 1)
    return [(n, factor) for n in op.inputs if recording.values[n].requires_grad]


def _read(recording: Recording, number: int, root: int, factor: float) -> Term:
    made_of = recording.values[number].taint
    data = Taint.BATCH if made_of & Taint.BATCH else Taint.RANDOM
    heads, zone = _walk_back(recording, number, data)
    tensor = recording.values[number].tensor
    value = factor * float(tensor.detach().sum()) if tensor is not None else float("nan")
    ranked = sorted(_comparisons(recording, zone), key=lambda c: (c.rank, -c.op))
    return Term(number, root, factor, value, tuple(heads), tuple(zone), ranked[0] if ranked else None)


def _walk_back(recording: Recording, number: int, data: Taint) -> tuple[list[int], list[int]]:
    """Walk from a term over values with a gradient to the ops that mix parameters with data.

    Return the outputs of those, which are the heads, and the ops between them and the term.
    """
    heads, zone, seen, stack = [], [], set[int](), [number]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        op = recording.producer(current)
        if op is None:
            heads += [current] * bool(recording.values[current].taint & Taint.UNSEEN)
        elif _mixes(recording, op, data):
            heads.append(current)
        else:
            zone.append(op.index)
            stack += [n for n in op.inputs if recording.values[n].requires_grad]
    return sorted(heads), sorted(set(zone))


def _mixes(recording: Recording, op: Op, data: Taint) -> bool:
    """Whether an op computes with parameters on one side and with data on the other."""
    inputs = [recording.values[n] for n in op.inputs]
    if op.is_custom and any(callable(part) for part in op.args):  # a checkpoint: the parameters are inside
        return True
    if op.name in LOSSES:
        return False
    fed = any(value.taint & data and value.shape for value in inputs)
    return fed and any(value.taint & Taint.PARAMETER and not value.taint & data for value in inputs)


def _comparisons(recording: Recording, zone: list[int]) -> Iterator[Comparison]:
    for index in zone:
        op = recording.ops[index]
        if op.name in LOSSES:
            yield from _known(recording, op)
            continue
        inputs = list(dict.fromkeys(op.inputs))
        graded = [n for n in inputs if recording.values[n].requires_grad]
        others = [n for n in inputs if not recording.values[n].requires_grad]
        if len(graded) == 1 and others and recording.values[graded[0]].shape:
            target = max(others, key=lambda n: recording.values[n].numel)
            rank = _rank(op, recording.values[graded[0]], recording.values[target])
            if rank is not None:
                yield Comparison(op.index, op.name, graded[0], target, rank)


def _known(recording: Recording, op: Op) -> Iterator[Comparison]:
    names = LOSSES[op.name]
    given = [op.args[place] if place < len(op.args) else op.kwargs.get(name) for place, name in enumerate(names)]
    numbers = [part.number for part in given if isinstance(part, Use)]
    if len(numbers) == 2:
        first, second = numbers
        swapped = not recording.values[first].requires_grad and recording.values[second].requires_grad
        yield Comparison(op.index, op.name, *((second, first) if swapped else (first, second)), 0)


def _rank(op: Op, prediction: Value, target: Value) -> int | None:
    """Say how surely an op compares a prediction with a target: 1 for a lookup of the target's class, then others."""
    made_of_data = bool(target.taint & (Taint.BATCH | Taint.RANDOM))
    if not target.shape or not made_of_data:
        return None
    if op.name in ("gather", "take_along_dim"):
        return 1
    if op.name == "__getitem__":
        paired = sum(isinstance(part, Use) for part in op.args[1]) if isinstance(op.args[1], tuple) else 0
        listed = sum(isinstance(part, (list, range)) for part in op.args[1]) if isinstance(op.args[1], tuple) else 0
        return 1 if paired + listed > 1 else 4
    if op.name in _NEAR:
        return 2
    return 3 if op.name.startswith(("mul", "rmul")) else 5
