"""Read a recording: the terms of the loss, the heads of the model, and what prediction is compared with what target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nbdebug.experiments.tape.ops import Op, Recording, Use, Value
from nbdebug.experiments.tape.taint import Taint
from nbdebug.experiments.tape.terms import is_weighted, summands

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
    for number, factor in summands(recording, root):
        found[number] = found.get(number, 0.0) + factor
    return [_read(recording, number, root, factor) for number, factor in found.items()]


def main_term(recording: Recording, terms: list[Term]) -> Term:
    """Return the term that says what is learned.

    A target from the batch comes first, then one that no network has computed and that is no input of the prediction,
    then one of a known loss, then any; among terms without a target, one without a gradient inside, then the largest.
    """

    def order(term: Term) -> tuple[bool | float, ...]:
        compared = term.comparison
        if compared is None:
            has_gradient = any(recording.ops[index].name == "grad" for index in term.zone)
            return (False, False, False, False, False, not has_gradient, abs(term.value))
        target, prediction = recording.values[compared.target], recording.values[compared.prediction]
        is_computed = bool(target.taint & (Taint.PARAMETER | Taint.FROZEN | Taint.UNSEEN))
        is_apart = not target.sources <= prediction.sources
        is_data = bool(target.taint & Taint.BATCH)
        return (is_data, not is_computed, is_apart, compared.is_loss, True, True, abs(term.value))

    return max(terms, key=order)


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
    fed = any(value.taint & data and value.shape and not is_weighted(recording, value) for value in inputs)
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
            of_batch = [n for n in others if recording.values[n].taint & Taint.BATCH]
            target = max(of_batch or others, key=lambda n: recording.values[n].numel)
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
