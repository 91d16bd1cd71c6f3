"""What the user of a wizard wants otherwise: thresholds, the time that a click may take, and samples in reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from nbdebug.core.control import Control, Effort, limit_for
from nbdebug.core.options import check_thresholds, check_time_limit, checked_effort
from nbdebug.engine.session import Session
from nbdebug.setup import Setup

__all__ = ["Bounds"]


@dataclass(frozen=True)
class Bounds:
    """The options of a wizard that do not describe what is examined."""

    thresholds: Mapping[str, Mapping[str, Any]] | None = None
    effort: Effort = "normal"
    time_limit: float | None = None  # in seconds, for what one click starts; the effort has one of its own
    include_samples: bool = False  # whether an exported report may show pictures of samples
    symptom: str | None = None

    @classmethod
    def out_of(cls, arguments: dict[str, Any]) -> Bounds:
        """Take the options out of the arguments of a wizard; what means nothing is refused."""
        bounds = cls(**{part.name: arguments.pop(part.name) for part in fields(cls) if part.name in arguments})
        check_thresholds(bounds.thresholds)
        check_time_limit(bounds.time_limit)
        checked_effort(bounds.effort)
        return bounds

    @property
    def limit(self) -> float | None:
        """The seconds that what one click starts may take; None for no limit."""
        return limit_for(self.effort, self.time_limit)

    @property
    def control(self) -> Control:
        """A new controller within these bounds."""
        return Control(time_limit=self.limit, quick=self.effort == "quick")

    def session(self, setup: Setup) -> Session:
        """Begin the examination of a setup within these bounds."""
        return Session(setup, control=self.control, thresholds=self.thresholds, symptom=self.symptom)
