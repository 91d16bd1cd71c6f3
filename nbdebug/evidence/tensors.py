"""Plain numbers about one tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["TensorFacts"]


@dataclass(frozen=True)
class TensorFacts:
    """Shape, type and statistics of the finite elements; how many were NaN or infinite is counted apart."""

    shape: tuple[int, ...]
    dtype: str
    count: int = 0
    nan: int = 0
    inf: int = 0
    mean: float = math.nan
    std: float = math.nan
    low: float = math.nan
    high: float = math.nan
    norm: float = math.nan
    zeros: float = math.nan

    @property
    def is_finite(self) -> bool:
        """Whether every element is a finite number."""
        return self.nan == 0 and self.inf == 0

    @property
    def biggest(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))
