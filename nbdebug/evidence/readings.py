"""What reading the same sample again shows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Augmentation", "Rereading", "Workers"]


@dataclass(frozen=True)
class Rereading:
    """What reading the same samples again gives, with the RNG state restored in between.

    `random` counts samples that differ when the generators differ; `changed` those that differ although the generators
    are the same, in a way that repeats on another copy; `local` those where only the sample that was read changes.
    `stored` names the arrays of the data set whose bytes changed. `restless` counts samples that never repeat.
    """

    read: int
    random: int
    changed: int
    local: int
    restless: int
    stored: tuple[str, ...]
    examples: tuple[int, ...] = ()
    first: float = 0.0
    second: float = 0.0
    third: float = 0.0
    target_random: bool = False
    target_changed: int = 0


@dataclass(frozen=True)
class Augmentation:
    """How well the index of a sample can be told from one random reading of it, by the other readings.

    `recognised` is the best of three ways (nearest reading, nearest mean, nearest by values in order of size); chance
    is one over the number of samples. The gains say how far simple models get from chance to perfect in predicting the
    class of clean samples, of augmented ones, and of augmented ones by their values in order of size.
    """

    samples: int
    readings: int
    recognised: float
    chance: float
    p: float
    upper: float
    clean_gain: float | None = None
    gain: float = 0.0
    sorted_gain: float = 0.0


@dataclass(frozen=True)
class Workers:
    """The same indices read by two workers, and by both again in a second epoch."""

    compared: int
    twins: int
    repeats: int
    workers: int
    persistent: bool
    init_fn: str
    held: tuple[str, ...] = ()
