"""Samples that a recorded run mixes with others: with which partners and shares, in the inputs and in the targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape import Taint, Tape
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import ancestors, tensor_of

__all__ = ["MixedSamples", "mixed_samples"]

_ROWS = ("__getitem__", "index_select", "flip", "roll")


@dataclass(frozen=True)
class MixedSamples:
    """The permutations of the samples that inputs and targets are mixed by, and the share of the sample's own.

    `same_partners` says whether they share a permutation; the shares are NaN where they cannot be read.
    """

    samples: int
    inputs: int  # permutations
    targets: int
    same_partners: bool
    input_share: float = float("nan")
    target_share: float = float("nan")


def mixed_samples(tape: Tape, samples: int) -> MixedSamples | None:
    """Return how samples are mixed, if inputs and targets are reordered; None where one of them is not."""
    recording = tape.recording
    terms = [term for term in tape.terms if term.comparison is not None and term.root == tape.main.root]
    predictions = ancestors(recording, *(t.comparison.prediction for t in terms if t.comparison))
    targets = ancestors(recording, *(t.comparison.target for t in terms if t.comparison)) - predictions
    inputs, wanted = {}, {}
    for op, permutation, before, after in _reorderings(recording, samples):
        if after in predictions and after not in targets:
            inputs[permutation] = (op, before, after)
        elif after in targets:
            wanted[permutation] = (op, before, after)
    if not inputs or not wanted:
        return None
    common = set(inputs) & set(wanted)
    if not common:
        return MixedSamples(samples, len(inputs), len(wanted), False)
    permutation = next(iter(common))
    one = _own_share(recording, *inputs[permutation][1:])
    other = _own_share(recording, *wanted[permutation][1:])
    if other is None:
        other = _share_of_terms(tape, wanted[permutation][2])
    nan = float("nan")
    return MixedSamples(
        samples, len(inputs), len(wanted), True, nan if one is None else one, nan if other is None else other
    )


def _reorderings(recording: Recording, samples: int) -> Iterator[tuple[Op, tuple[int, ...], int, int]]:
    """Yield the ops that put the samples of something made of the batch alone in another order."""
    for op in recording.ops:
        if op.name not in _ROWS or not op.inputs or len(op.outputs) != 1:
            continue
        before, after = recording.values[op.inputs[0]], recording.values[op.outputs[0]]
        if before.shape != after.shape or before.shape[:1] != (samples,) or before.taint & Taint.PARAMETER:
            continue
        order = _order(recording, op, samples) if before.taint & Taint.BATCH else None
        if order is not None and sorted(order) == list(range(samples)) and list(order) != sorted(order):
            yield op, tuple(order), before.number, after.number


def _order(recording: Recording, op: Op, samples: int) -> list[int] | None:
    if op.name == "flip":
        dims = op.args[1:] if len(op.args) > 1 else (op.kwargs.get("dims"),)
        return list(range(samples))[::-1] if dims in ((0,), ([0],), ((0,),)) else None
    if op.name == "roll":
        given = dict(zip(("input", "shifts", "dims"), op.args, strict=False)) | op.kwargs
        shift = given.get("shifts")
        is_first = given.get("dims") in (0, (0,), [0]) and isinstance(shift, int)
        return [(i - shift) % samples for i in range(samples)] if is_first and isinstance(shift, int) else None
    index: Any = op.args[-1] if len(op.args) > 1 else op.kwargs.get("index")
    index = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if isinstance(index, Use):
        index = tensor_of(recording, index)
    try:
        found = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError):
        return None
    is_index = found.dim() == 1 and not found.is_floating_point() and found.dtype != torch.bool
    return [int(i) % samples for i in found] if is_index and len(found) == samples else None


def _own_share(recording: Recording, before: int, after: int) -> float | None:
    """Return the share of the samples' own values in a sum of them and the reordered ones."""
    own, other = tensor_of(recording, Use(before)), tensor_of(recording, Use(after))
    if own is None or other is None:
        return None
    for op in recording.ops:
        if op.name not in ("add", "radd", "lerp") or len(op.outputs) != 1:
            continue
        made = tensor_of(recording, Use(op.outputs[0]))
        if made is None or made.shape != own.shape or after not in ancestors(recording, op.outputs[0]):
            continue
        apart = (own - other).double().flatten()
        size = float(apart @ apart)
        share = float((made - other).double().flatten() @ apart) / size if size > 0 else 0.0
        error = (made.double() - share * own.double() - (1 - share) * other.double()).abs().max()
        if size > 0 and float(error) < 1e-4 * max(float(made.abs().max()), 1e-6):
            return share
    return None


def _share_of_terms(tape: Tape, after: int) -> float | None:
    """Return the share of the terms whose target is not reordered, where both are compared by the same op."""
    terms = [t for t in tape.terms if t.comparison is not None and t.root == tape.main.root]
    names = {t.comparison.name for t in terms if t.comparison}
    if len(terms) != 2 or len(names) != 1 or not all(t.factor > 0 for t in terms):
        return None
    reordered = [after in ancestors(tape.recording, t.comparison.target) for t in terms if t.comparison]
    if sorted(reordered) != [False, True]:
        return None
    own = terms[reordered.index(False)].factor
    return own / (terms[0].factor + terms[1].factor)
