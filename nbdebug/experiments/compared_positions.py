"""What the loss of a recorded run compares at each position of a sequence, however the program has laid it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape import Tape, TapeUnreadable, Term
from nbdebug.experiments.tape.ops import Use

__all__ = [
    "SHORTEST", "Compared", "compared", "first_entry", "first_position", "prediction_of", "sources_of", "steps_of",
]  # fmt: skip

Read = Callable[[torch.Tensor], torch.Tensor]

SHORTEST = 4  # positions, below which an offset means nothing
CLASSES = ("cross_entropy", "nll_loss", "multi_margin_loss", "cross_entropy_loss", "nll_loss_nd")
LOOKUPS = ("gather", "take_along_dim")
RESHAPES = ("view", "reshape", "flatten", "contiguous", "float", "to", "transpose", "permute", "clone", "double")
FOLLOWED = 12  # ops from a prediction back to where positions are cut off
POINTWISE = ("linear", "layer_norm", "dropout", "gelu", "relu", "tanh", *RESHAPES)


@dataclass(frozen=True)
class Compared:
    """What the loss compares at each position, and how a prediction of another run is read in the same way.

    All have the shape (samples, positions, features), but `pull`, which is the size of the loss's gradient at each
    position; where that is not known, it is 1 everywhere.
    """

    prediction: torch.Tensor
    target: torch.Tensor
    pull: torch.Tensor
    read: Read

    @property
    def counted(self) -> torch.Tensor:
        """Where the loss has a gradient."""
        return self.pull != 0


def steps_of(tape: Tape) -> list[Term]:
    """Return the terms of a loop over positions, which all compare in the same way; none where there is no loop."""
    shapes = dict[tuple[tuple[int, ...], ...], list[Term]]()
    for term in tape.terms:
        if term.comparison is not None and term.comparison.name == tape.loss_name:
            given = (tape.recording.values[n].shape for n in (term.comparison.prediction, term.comparison.target))
            shapes.setdefault(tuple(given), []).append(term)
    alike = next((terms for terms in shapes.values() if tape.main in terms), list[Term]())
    return sorted(alike, key=lambda term: term.number) if len(alike) >= SHORTEST else []


def prediction_of(tape: Tape) -> torch.Tensor:
    """Return the prediction, the steps of a loop next to each other."""
    steps = steps_of(tape)
    if not steps:
        return tape.prediction.value
    return torch.stack([tape.tensor(t.comparison.prediction).value for t in steps if t.comparison is not None], 1)


def _target_of(tape: Tape) -> torch.Tensor | None:
    steps = steps_of(tape)
    if not steps:
        return tape.target.value if tape.target is not None else None
    return torch.stack([tape.tensor(t.comparison.target).value for t in steps if t.comparison is not None], 1)


def sources_of(tape: Tape) -> frozenset[str]:
    """Return the entries of the batch that the prediction, or any step of it, is computed from."""
    numbers = [t.comparison.prediction for t in steps_of(tape) if t.comparison is not None] or [tape.prediction.number]
    return frozenset().union(*(tape.recording.values[number].sources for number in numbers))


def compared(tape: Tape, size: int) -> Iterator[Compared]:
    """Yield the ways to read what the loss compares as positions of so many samples."""
    predicted, target = prediction_of(tape), _target_of(tape)
    if target is None:
        return
    for apart, together in _forms(tape, predicted, target):
        features, wanted = apart(predicted), together(target)
        if features.shape[:-1] != wanted.shape[:-1]:
            continue
        pull = apart(_gradient(tape, predicted)).abs().sum(-1, keepdim=True)
        for read in _reads(tuple(features.shape[:-1]), size):
            yield Compared(read(features), read(wanted), read(pull)[..., 0], _after(read, apart))


def _after(read: Read, apart: Read) -> Read:
    return lambda tensor: read(apart(tensor))


def _gradient(tape: Tape, predicted: torch.Tensor) -> torch.Tensor:
    try:
        found = tape.gradient()
    except (TapeUnreadable, RuntimeError):
        return torch.ones_like(predicted)
    return found if found.shape == predicted.shape else torch.ones_like(predicted)


def _forms(tape: Tape, predicted: torch.Tensor, target: torch.Tensor) -> Iterator[tuple[Read, Read]]:
    """Yield how the prediction and the target get their features last: classes, channels, or single numbers."""
    if not target.is_floating_point():
        if tape.loss_name in (*CLASSES, *LOOKUPS) and predicted.dim() > 1:
            looked_up = tape.loss_name in LOOKUPS and target.dim() == predicted.dim()
            dim = -1 if tape.loss_name in LOOKUPS or steps_of(tape) else 1
            yield (lambda t: t.movedim(dim, -1)), ((lambda t: t) if looked_up else lambda t: t.unsqueeze(-1))
        elif tape.loss_name == "__getitem__" and predicted.dim() == target.dim() + 1:
            yield (lambda t: t), (lambda t: t.unsqueeze(-1))
        return
    if predicted.numel() != target.numel() or predicted.dim() > 3:
        return
    shape = predicted.shape
    if len(shape) > 1:
        yield (lambda t: t), (lambda t: t.reshape(shape))
    if len(shape) == 3:
        yield (lambda t: t.transpose(1, 2)), (lambda t: t.reshape(shape).transpose(1, 2))
    if len(shape) < 3:
        yield (lambda t: t.unsqueeze(-1)), (lambda t: t.reshape(shape).unsqueeze(-1))


def _reads(units: tuple[int, ...], size: int) -> Iterator[Read]:
    """Yield the ways to read units as (samples, positions, features): as they are, or flattened together."""
    if len(units) == 2:
        if units[0] == size:
            yield lambda t: t
        if units[1] == size:
            yield lambda t: t.transpose(0, 1)
    elif len(units) == 1 and units[0] % size == 0:
        yield lambda t: t.reshape(size, -1, t.shape[-1])
        if units[0] > size > 1:
            yield lambda t: t.reshape(-1, size, t.shape[-1]).transpose(0, 1)


def first_position(tape: Tape, number: int) -> int:
    """Return how many positions a program cuts off the beginning of its outputs before it compares them."""
    for _ in range(FOLLOWED):
        op = tape.recording.producer(number)
        if op is None or not op.inputs:
            return 0
        data = [n for n in op.inputs if tape.recording.values[n].requires_grad and tape.recording.values[n].sources]
        if not data:
            return 0
        number, shape = data[0], tape.recording.values[data[0]].shape
        if op.name == "__getitem__":
            return _start(op.args[1], shape)
        if op.name == "narrow":
            return int(op.args[2]) if len(op.args) > 2 else 0
        if op.name not in POINTWISE:
            return 0
    return 0


def first_entry(tape: Tape, name: str) -> int:
    """Return how many positions a program cuts off the beginning of an entry before the model reads it."""
    recording, wanted, starts = tape.recording, {tape.prediction.number}, set[int]()
    for op in reversed(recording.ops[: tape.prediction.op + 1]):
        if not wanted.intersection(op.made):
            continue
        wanted.update(op.inputs)
        value = recording.values[op.inputs[0]] if op.inputs else None
        if op.name == "__getitem__" and value is not None and value.producer < 0 and value.sources == {name}:
            starts.add(_start(op.args[1], value.shape))
    return starts.pop() if len(starts) == 1 else 0


def _start(index: Any, shape: tuple[int, ...]) -> int:
    """Return where the first slice begins that does not begin at 0."""
    parts = index if isinstance(index, tuple) else (index,)
    if Ellipsis in [part for part in parts if not isinstance(part, Use)]:
        return 0
    for part, size in zip(parts, shape, strict=False):
        if isinstance(part, slice) and isinstance(part.start, int) and part.start and part.step in (None, 1):
            return part.start % size
    return 0
