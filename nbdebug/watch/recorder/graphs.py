"""Counts the graphs of a training that something holds on to."""

from __future__ import annotations

__all__ = ["GraphToken"]


class GraphToken:
    """Lives as long as a graph does, and counts those that live."""

    __slots__ = ("alive", "weight")

    def __init__(self, alive: list[int], weight: int) -> None:
        self.alive, self.weight = alive, weight
        alive[0] += weight

    def __del__(self) -> None:
        self.alive[0] -= self.weight
