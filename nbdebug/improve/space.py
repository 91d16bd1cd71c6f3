"""What may be searched: ranges, logarithmic ranges and choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdebug.errors import BadInput

__all__ = ["DEFAULT_SPACE", "Range", "checked_space", "narrowed", "suggest"]

# Full Stack Deep Learning, lecture 7: models are most sensitive to the learning rate and the size of their layers,
# less to their number and to regularization, least to the rest.
DEFAULT_SPACE: dict[str, Any] = {
    "learning_rate": (1e-5, 1e-1, "log"),
    "lr": (1e-5, 1e-1, "log"),
    "width": (16, 512, "log"),
    "hidden": (16, 512, "log"),
    "layers": (1, 4),
    "depth": (1, 4),
    "weight_decay": (1e-6, 1e-1, "log"),
    "dropout": (0.0, 0.5),
    "batch_size": [16, 32, 64, 128],
}


@dataclass(frozen=True)
class Range:
    """One value to search for: from low to high, evenly or by factors, in whole numbers or not; or one of choices."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()


def checked_space(space: Mapping[str, Any]) -> dict[str, Range]:
    """Read the user's space; what cannot be understood is refused with the forms that can."""
    return {name: _range(name, values) for name, values in space.items()}


def _range(name: str, values: Any) -> Range:
    if isinstance(values, list) and values:
        return Range(choices=tuple(values))
    if isinstance(values, tuple) and len(values) in (2, 3) and all(_is_number(v) for v in values[:2]):
        low, high = values[:2]
        log = len(values) == 3
        if low < high and (not log or (values[2] == "log" and low > 0)):
            return Range(float(low), float(high), log, all(isinstance(v, int) for v in (low, high)))
    raise BadInput(
        f"{name!r} is {values!r}",
        where="space",
        expected='(low, high), (low, high, "log") with low > 0, or a list of choices',
        do='{"learning_rate": (1e-5, 1e-1, "log"), "width": (16, 512), "activation": ["relu", "tanh"]}',
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def suggest(trial: Any, name: str, values: Range) -> Any:
    """Ask Optuna for a value."""
    if values.choices:
        return trial.suggest_categorical(name, list(values.choices))
    if values.whole:
        return trial.suggest_int(name, int(values.low), int(values.high), log=values.log)
    return trial.suggest_float(name, values.low, values.high, log=values.log)


def narrowed(ranges: Mapping[str, Range], best: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    """Return the part of the space around the best trials: from their lowest to their highest value, a little wider."""
    fine: dict[str, Range] = {}
    for name, values in ranges.items():
        seen = [params[name] for params in best if name in params]
        if values.choices or len(seen) < 2 or min(seen) == max(seen):
            fine[name] = values  # Optuna refuses other choices within one study
            continue
        low, high = float(min(seen)), float(max(seen))
        room = (high / low) ** 0.25 if values.log else (high - low) / 4
        low, high = (low / room, high * room) if values.log else (low - room, high + room)
        fine[name] = Range(max(values.low, low), min(values.high, high), values.log, values.whole)
    return fine
