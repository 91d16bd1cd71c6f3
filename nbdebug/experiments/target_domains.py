"""Targets of a recorded run that the op which reads them is not made for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import given_by_name, tensor_of

__all__ = ["WrongTargets", "wrong_targets"]

_SIGNED = {  # losses whose targets are 1 and -1, with the place of the target
    "soft_margin_loss": 1, "hinge_embedding_loss": 1, "margin_ranking_loss": 2, "cosine_embedding_loss": 2,
}  # fmt: skip
_NORMALIZED = 1e-3  # of a row's sum, by rounding


@dataclass(frozen=True)
class WrongTargets:
    """An op, the kind of fault (`signs` or `exclusive`), and the share of its targets that it cannot be right about."""

    op: str
    kind: str
    share: float
    rows: int
    sources: tuple[str, ...]
    module: str


def wrong_targets(recording: Recording) -> Iterator[WrongTargets]:
    """Yield margin losses of zeros and ones, and binary losses whose predictions exclude each other."""
    for op in recording.ops:
        if op.name in _SIGNED:
            given = [*op.args, *([None] * 3)][_SIGNED[op.name]]
            found = _zeros(recording, op, given if given is not None else op.kwargs.get("target"))
        elif op.name == "binary_cross_entropy":
            found = _exclusive(recording, op)
        else:
            found = _zeros_by_hand(recording, op)
        if found is not None:
            yield found


def _zeros(recording: Recording, op: Op, part: Any) -> WrongTargets | None:
    values = tensor_of(recording, part)
    if values is None or not values.numel() or not bool(((values == 0) | (values == 1)).all()):
        return None
    value = recording.values[part.number]
    if not value.taint & Taint.BATCH or value.taint & Taint.PARAMETER:
        return None
    share = float((values == 0).double().mean())
    return WrongTargets(op.name, "signs", share, len(values.flatten()), tuple(sorted(value.sources)), op.module)


def _zeros_by_hand(recording: Recording, op: Op) -> WrongTargets | None:
    """Find `relu(1 - target * score)` with targets of 0 and 1."""
    is_cut = op.name == "relu" or (op.name in ("clamp", "clamp_min") and _first_number(op) == 0)
    margin = recording.producer(op.inputs[0]) if is_cut and op.inputs else None
    if margin is None or margin.name != "rsub" or 1 not in margin.args[1:2]:
        return None
    product = recording.producer(margin.inputs[0])
    if product is None or product.name not in ("mul", "rmul") or len(product.inputs) != 2:
        return None
    graded = [n for n in product.inputs if recording.values[n].requires_grad]
    targets = [n for n in product.inputs if not recording.values[n].requires_grad]
    found = _zeros(recording, op, Use(targets[0])) if len(graded) == len(targets) == 1 else None
    return found if found is not None and recording.values[targets[0]].taint == Taint.BATCH else None


def _first_number(op: Op) -> Any:
    given = given_by_name(op, ("input", "min"))
    return given.get("min")


def _exclusive(recording: Recording, op: Op) -> WrongTargets | None:
    given = given_by_name(op, ("input", "target"))
    predicted, target = tensor_of(recording, given.get("input")), tensor_of(recording, given.get("target"))
    if predicted is None or target is None or predicted.dim() < 2 or predicted.shape != target.shape:
        return None
    if predicted.shape[-1] < 3 or bool(((predicted.sum(-1) - 1).abs() > _NORMALIZED).any()):
        return None
    several = (target.sum(-1) - 1).abs() > 0.5
    sources = tuple(sorted(recording.values[given["target"].number].sources))
    return WrongTargets(op.name, "exclusive", float(several.double().mean()), several.numel(), sources, op.module)
