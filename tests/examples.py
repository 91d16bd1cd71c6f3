"""Failing examples and healthy set-ups: what the common tests and the benchmark run every check on.

A *failing example* is the smallest set-up with exactly one bug; it stands in the test file of its check. A *healthy*
set-up trains to a good result and must raise no alarm; it stands in `tests/zoo/`. Both are functions that return the
keyword arguments of `nbdebug.diagnose`, seeded by the caller.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Make = Callable[[], dict[str, Any]]
F = TypeVar("F", bound=Make)


@dataclass(frozen=True)
class FailingExample:
    """A set-up with one illness: the check that must find it, and the place that must be named."""

    check: str
    name: str
    make: Make
    where: str | tuple[str, ...] | None


@dataclass(frozen=True)
class Healthy:
    """A set-up without illness: how it is made, and what a good result is after how many epochs of real training."""

    name: str
    make: Make
    epochs: int
    good: Callable[[float, float], bool]
    accuracy: float | None = None

    @property
    def is_tutorial(self) -> bool:
        """Whether it is one of the plain set-ups of a blind trial, of which `make test-slow` runs the most."""
        return "tutorial_" in self.make.__module__ and self.name not in ONCE_ALARMED


# What once raised a false alarm stays in every run.
ONCE_ALARMED = (
    "next_four_values", "vae_of_digits", "nano_gpt", "tied_gpt", "labeled_gpt", "loss_in_an_attribute",
    "batches_of_two", "dropout_in_eval_mode", "information_bottleneck", "state_that_is_reset", "state_of_one_size",
    "probabilities_in_keras_style", "shift_in_the_loss",
)  # fmt: skip
FAILING_EXAMPLES: list[FailingExample] = []
RECORDED: list[FailingExample] = []  # whose illness shows only in a real training: they return its recording
HEALTHY: list[Healthy] = []


def failing_example(check: str, *, where: str | tuple[str, ...] | None = None) -> Callable[[F], F]:
    """Register a set-up as a failing example of a check; `where` is the place (or one of the places) it must name."""

    def register(make: F) -> F:
        FAILING_EXAMPLES.append(FailingExample(check, make.__name__, make, where))
        return make

    return register


def failing_recording(check: str, *, where: str | tuple[str, ...] | None = None) -> Callable[[F], F]:
    """Register a real training as a failing example of a check; the function trains and returns `{"recording": …}`."""

    def register(make: F) -> F:
        RECORDED.append(FailingExample(check, make.__name__, make, where))
        return make

    return register


def healthy(
    *,
    epochs: int = 10,
    good: Callable[[float, float], bool] = lambda first, last: last < 0.5 * first,
    accuracy: float | None = None,
) -> Any:
    """Register a healthy set-up, with what a good result is after real training.

    `good(first_loss, last_loss)` judges the loss of the first and the last epoch; `accuracy` is the share of right
    answers that it has to reach on its validation data (or on the training data where there is no other).
    """

    def register(make: F) -> F:
        HEALTHY.append(Healthy(make.__name__, make, epochs, good, accuracy))
        return make

    return register


def _import_all(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def all_failing_examples() -> list[FailingExample]:
    """Return every failing example of every check's test file."""
    _import_all("tests.checks")
    return FAILING_EXAMPLES


def all_recorded() -> list[FailingExample]:
    """Return every failing example that is a real training."""
    _import_all("tests.checks")
    _import_all("tests.evidence.recorded")
    return RECORDED


def all_healthy() -> list[Healthy]:
    """Return every healthy set-up of the zoo."""
    _import_all("tests.zoo")
    return HEALTHY
