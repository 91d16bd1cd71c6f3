"""What the user of a wizard wants otherwise: thresholds, the time that a click may take, and samples in reports."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from nbdebug.core.control import Control, Effort, limit_for
from nbdebug.core.options import Options, checked_effort
from nbdebug.engine.session import Session
from nbdebug.errors import BadInput
from nbdebug.setup import Setup

__all__ = ["Bounds"]

OF_A_WHOLE_RUN = ("checks", "skip", "tell_apart")


@dataclass(frozen=True)
class Bounds:
    """The options of a wizard that do not describe what is examined."""

    effort: Effort = "normal"
    symptom: str | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Refuse what a wizard cannot keep to: its user chooses the steps and experiments to run."""
        object.__setattr__(self, "effort", checked_effort(self.effort, self.options.quick))
        for option in fields(Options):
            if option.name in OF_A_WHOLE_RUN and getattr(self.options, option.name) != option.default:
                raise BadInput(
                    "the wizard does not use it",
                    where=option.name,
                    expected="no value: the steps to run are chosen in the wizard",
                    do=f"leave it out, or write nbdebug.diagnose(..., {option.name}=…)",
                )

    @property
    def limit(self) -> float | None:
        """The seconds that what one click starts may take; None for no limit."""
        return limit_for(self.effort, self.options.time_limit)

    @property
    def control(self) -> Control:
        """A new controller within these bounds."""
        return Control(time_limit=self.limit, quick=self.effort == "quick")

    def session(self, setup: Setup) -> Session:
        """Begin the examination of a setup within these bounds."""
        return Session(
            setup,
            control=self.control,
            thresholds=self.options.thresholds,
            symptom=self.symptom,
            seed=self.options.seed,
            answers=self.options.answers,
        )
