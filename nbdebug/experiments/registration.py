"""Register two draws of one sample: by which flip, turn and shift one picture becomes the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

__all__ = ["TURNS", "UNMOVED", "Move", "Registration", "in_place", "registered"]

UNMOVED = "not moved"
TURNS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    UNMOVED: lambda t: t,
    "flipped left to right": lambda t: t.flip(-1),
    "flipped top to bottom": lambda t: t.flip(-2),
    "turned by 180 degrees": lambda t: t.flip(-1, -2),
    "transposed": lambda t: t.mT,
    "turned by 90 degrees": lambda t: t.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda t: t.rot90(-1, (-2, -1)),
}
OVERLAP = 0.4  # of the picture, which must be left to compare after a shift
VARIANCE = 0.05  # of that of the whole picture, which the part that is compared must have


@dataclass(frozen=True)
class Move:
    """A turn, and a shift in pixels that follows it."""

    turn: str
    down: int
    right: int

    @property
    def text(self) -> str:
        """The move in words."""
        shift = f"shifted by ({self.down}, {self.right}) pixels" if self.down or self.right else ""
        return " and ".join(part for part in (self.turn * (self.turn != UNMOVED), shift) if part) or UNMOVED


@dataclass(frozen=True)
class Registration:
    """The correlation of two pictures after each turn, and each shift at `[down, right]` modulo the table's size."""

    tables: dict[str, torch.Tensor]

    @property
    def best(self) -> tuple[Move, float]:
        """The move after which both are most alike, and their correlation."""
        turn = max(self.tables, key=lambda name: float(self.tables[name].max()))
        table = self.tables[turn]
        place = int(table.argmax())
        shift = (place // table.shape[1], place % table.shape[1])
        down, right = (s - n if s > n // 2 else s for s, n in zip(shift, table.shape, strict=True))
        return Move(turn, down, right), float(table.max())

    def at(self, move: Move) -> float:
        """Return the correlation after a move, or one that differs by a pixel."""
        table = self.tables[move.turn]
        near = [table[(move.down + i) % table.shape[0], (move.right + j) % table.shape[1]] for i in NEAR for j in NEAR]
        return float(torch.stack(near).max())


NEAR = (-1, 0, 1)


def registered(before: torch.Tensor, after: torch.Tensor) -> Registration:
    """Correlate two pictures of one size (channels, height, width) after every turn and shift."""
    square = before.shape[-1] == before.shape[-2]
    turns = [name for name in TURNS if square or name in list(TURNS)[:4]]
    return Registration({name: _correlations(TURNS[name](before).double(), after.double()) for name in turns})


def in_place(before: torch.Tensor, after: torch.Tensor) -> dict[str, float]:
    """Correlate two pictures of one size after every turn, without a shift."""
    square, found = before.shape[-1] == before.shape[-2], {}
    for name, turn in TURNS.items():
        if square or name in list(TURNS)[:4]:
            one, other = (t.double() - t.double().mean((-2, -1), keepdim=True) for t in (turn(before), after))
            found[name] = float((one * other).sum() / (one.norm() * other.norm()).clamp(min=1e-12))
    return found


def _correlations(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the normalized correlation of the parts that overlap, for every shift; -1 where they say too little."""
    height, width = one.shape[-2:]
    size, whole = (2 * height, 2 * width), torch.ones_like(one[:1])
    one, other = (t - t.mean((-2, -1), keepdim=True) for t in (one, other))

    def spectrum(t: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.fft.rfft2(F.pad(t, (0, width, 0, height)))
        return found

    def over(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.fft.irfft2(spectrum(a).conj() * spectrum(b), s=size)
        return found

    count = over(whole, whole).clamp(min=1)
    sums, others = over(one, whole), over(whole, other)
    product = (over(one, other) - sums * others / count).sum(0)
    spread = (over(one.square(), whole) - sums.square() / count).sum(0)
    other_spread = (over(whole, other.square()) - others.square() / count).sum(0)
    share = count[0] / (height * width)
    known = share >= OVERLAP
    for values, part in ((one, spread), (other, other_spread)):
        known &= part > VARIANCE * float(values.square().sum()) * share
    found = product / (spread * other_spread).clamp(min=1e-12).sqrt()
    return torch.where(known, found, -torch.ones_like(found))
