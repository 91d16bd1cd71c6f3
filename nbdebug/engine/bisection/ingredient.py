"""One ingredient of a training that differs between two set-ups: what each has, where, and whether it can cross."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbdebug.core.finding import Place
from nbdebug.core.text import clean_text, figure, shortened
from nbdebug.setup.source_locations import definition_of

__all__ = ["Ingredient", "between", "described"]

WIDTH = 80


@dataclass(frozen=True)
class Ingredient:
    """What differs. `kept` says why it cannot be exchanged; empty where it can. `part_of` names a larger ingredient."""

    name: str
    good: str
    bad: str
    kept: str = ""
    part_of: str = ""
    note: str = ""
    good_place: Place | None = None
    bad_place: Place | None = None
    good_source: str = ""
    bad_source: str = ""

    @property
    def is_exchanged(self) -> bool:
        """Whether it is tried with the other set-up's."""
        return not self.kept

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        places = {name: place.to_dict() if (place := getattr(self, name)) else None for name in _PLACES}
        return {name: value for name, value in vars(self).items() if name not in _PLACES} | places

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ingredient:
        """Read back what `to_dict` wrote."""
        values: dict[str, Any] = {n: Place(**value) if n in _PLACES and value else value for n, value in data.items()}
        return cls(**values)


_PLACES = ("good_place", "bad_place")


def between(
    name: str,
    good: Any,
    bad: Any,
    *,
    texts: tuple[str, str] | None = None,
    kept: str = "",
    part_of: str = "",
    note: str = "",
) -> Ingredient:
    """Return an ingredient from the object that each set-up has in this place, with its source where it is known."""
    (good_source, good_place), (bad_source, bad_place) = definition_of(good), definition_of(bad)
    said = texts or (described(good), described(bad))
    return Ingredient(
        name, said[0], said[1], kept, part_of, note, good_place, bad_place, good_source, bad_source
    )  # fmt: skip


def described(value: Any) -> str:
    """Return an object in a few words: a value as it is, a function by its name, an object as it shows itself."""
    if value is None:
        return "none"
    if isinstance(value, (bool, int, float, str, tuple)):
        return shortened(figure(value), WIDTH)
    if callable(value) and hasattr(value, "__name__"):
        return f"{value.__name__}()"
    text = " ".join(clean_text(value).split())
    plain = "object at 0x" in text or not text
    return f"{type(value).__name__}" if plain else shortened(text, WIDTH)
