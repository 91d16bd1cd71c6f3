"""What differs between two set-ups, as a table: useful by itself, without training anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nbdebug.core.control import Control
from nbdebug.core.text import plural, shortened
from nbdebug.engine.bisection import data, network, optimizing, program
from nbdebug.engine.bisection.alike import Alike
from nbdebug.engine.bisection.given import Given, given
from nbdebug.engine.bisection.ingredient import Ingredient, between
from nbdebug.errors import plainly
from nbdebug.sandbox import guarded
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import unwrap

__all__ = ["Differences", "diff_setups", "differences_between", "parts_between"]

SEEDS, SWITCHES = "seed", "global switches"
LINE = 86
COLUMNS = ("ingredient", "good", "bad", "exchanged")


@dataclass(frozen=True)
class Differences:
    """The ingredients in which two set-ups differ, in the order of the batch's way: data, model, program, optimizer."""

    rows: tuple[Ingredient, ...]

    @property
    def exchanged(self) -> list[Ingredient]:
        """Those that one set-up can take over from the other."""
        return [row for row in self.rows if row.is_exchanged]

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return a row of texts for each difference."""
        return [
            (row.name, row.good, row.bad, f"no: {row.kept}" if row.kept else row.note or "yes") for row in self.rows
        ]

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, with the lines of the source."""
        import pandas as pd

        places = [(str(row.good_place or ""), str(row.bad_place or "")) for row in self.rows]
        rows = [(*row, *place) for row, place in zip(self.table(), places, strict=True)]
        return pd.DataFrame(rows, columns=[*COLUMNS, "good_line", "bad_line"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {"differences": [row.to_dict() for row in self.rows]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Differences:
        """Read back what `to_dict` wrote."""
        return cls(tuple(Ingredient.from_dict(row) for row in data["differences"]))

    @property
    def headline(self) -> str:
        """Return how many there are."""
        return f"{plural(len(self.rows), 'ingredient')} differ." if self.rows else "Nothing that is compared differs."

    def __str__(self) -> str:
        """Return the table as text, two lines for each ingredient."""
        lines = [self.headline]
        for name, ours, theirs, exchanged in self.table():
            lines.append(f"  {name:<20} good  {shortened(ours, LINE)}")
            lines.append(f"  {'':<20} bad   {shortened(theirs, LINE)}")
            lines += [f"  {'':<20} ({exchanged})"] if exchanged != "yes" else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<nbdebug differences: {', '.join(row.name for row in self.rows) or 'none'}>"

    def _repr_html_(self) -> str:
        from nbdebug.views.page import page, table

        return page(self.headline, table(COLUMNS, self.table()) if self.rows else "")


@plainly
def diff_setups(good: Any, bad: Any) -> Differences:
    """Return what differs between two set-ups, without training anything.

    Both are what `bisect` takes: a dict of the arguments of `diagnose`, an object with such attributes, a function that
    returns one of these, or its name as "package.module:function".
    """
    control = Control()
    sides = given(good, "good", control), given(bad, "bad", control)
    live = (*sides[0].live_parts, *sides[1].live_parts)
    return guarded(lambda: differences_between(*sides), live, control, snapshot=StateSnapshot(*live))


def differences_between(good: Given, bad: Given) -> Differences:
    """Compare two set-ups ingredient by ingredient; called within a guard."""
    return Differences(tuple(_all(good, bad)))


def _all(good: Given, bad: Given) -> Iterator[Ingredient]:
    models = unwrap(good.setup.model), unwrap(bad.setup.model)
    parts = ("optimizer", "scheduler", "loss_fn")
    pairs = [models, *((getattr(good.setup, name), getattr(bad.setup, name)) for name in parts)]
    yield from data.differing(good, bad, Alike(pairs))
    yield from network.differing(*models)
    yield from program.differing(good, bad)
    yield from optimizing.differing(good.setup, bad.setup)
    changed = [name for name in good.switches if good.switches[name] != bad.switches.get(name)]
    if changed:
        said = [", ".join(f"{name}: {side.switches[name]}" for name in changed) for side in (good, bad)]
        yield between(SWITCHES, None, None, texts=(said[0], said[1]))
    if good.seed != bad.seed and None not in (good.seed, bad.seed):
        kept = "all runs are compared from the same seeds"
        yield between(SEEDS, good.seed, bad.seed, kept=kept)


def parts_between(good: Given, bad: Given, ingredient: str) -> list[Ingredient]:
    """Return the parts of one large ingredient that differ and can be exchanged by themselves."""
    if ingredient == network.ARCHITECTURE:
        return list(network.parts_of_model(unwrap(good.setup.model), unwrap(bad.setup.model)))
    if ingredient == data.DATASET:
        loaders = good.setup.feed.loader, bad.setup.feed.loader
        return list(data.parts_of_dataset(*loaders, Alike([tuple(loaders)])))
    return []
