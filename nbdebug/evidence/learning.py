"""What short trainings of a twin show."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Overfit"]


@dataclass(frozen=True)
class Overfit:
    """The loss on one batch while a twin trains on it and on nothing else.

    `outcome` is memorised, falling (still on its way when the steps were over), plateaus, oscillates, rises,
    explodes or not-finite. `floor` is the least that the loss can reach on this batch where that is known.
    """

    losses: tuple[float, ...]
    outcome: str
    first: float
    last: float
    best: float
    steps: int
    batch_size: int
    optimizer: str
    learning_rate: float
    accuracy: float | None = None
    floor: float | None = None
    stopped_early: str = ""
