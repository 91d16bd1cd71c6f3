"""Pictures as data: what a finding shows, without a word about how it is drawn.

Each kind has a static renderer (`nbdebug.charts.draw`) and may have a live one (`nbdebug.widgets`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "Bars",
    "Exhibit",
    "HistogramGrid",
    "Images",
    "Lines",
    "Panels",
    "Table",
    "exhibit_from_dict",
    "spans_magnitudes",
]


# Where the kinds that can show samples hold them.
SAMPLES = {"images": ("pictures", "captions"), "table": ("rows",), "lines": ("series",)}


@dataclass(frozen=True)
class Exhibit:
    """Base of all exhibits: a title and the plain data of the kind."""

    kind: ClassVar[str] = ""

    @property
    def shows_samples(self) -> bool:
        """Whether it shows values of single samples, which are saved only on request."""
        return bool(getattr(self, "samples", False))

    @property
    def is_left_out(self) -> bool:
        """Whether it would show samples, and was saved without them."""
        return self.shows_samples and not any(len(getattr(self, name)) for name in SAMPLES[self.kind])

    def without_samples(self) -> Exhibit:
        """Return the same with its data left out."""
        return replace(self, **dict.fromkeys(SAMPLES[self.kind], ()))

    def to_dict(self) -> dict[str, Any]:
        """Return the data with the name of its kind; arrays become nested lists, NaN becomes its name."""
        data: dict[str, Any] = {"kind": self.kind}
        data.update({part.name: _written(getattr(self, part.name)) for part in fields(self)})
        return data


@dataclass(frozen=True)
class Bars(Exhibit):
    """One bar for each label; `band` is the range that is healthy."""

    kind: ClassVar[str] = "bars"
    labels: tuple[str, ...]
    values: tuple[float, ...]
    title: str = ""
    unit: str = ""
    log: bool = False
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Lines(Exhibit):
    """Curves over a common kind of x; each series is a name with its x and y values.

    `samples` says that the values are those of single samples, and not means or losses. The last `repeats` series are
    those before them again, with another random seed: they have the same colors, pale.
    """

    kind: ClassVar[str] = "lines"
    series: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...]
    title: str = ""
    x_label: str = "step"
    y_label: str = "loss"
    log_x: bool = False
    log_y: bool = False
    samples: bool = False
    repeats: int = 0

    @property
    def firsts(self) -> int:
        """The number of series that are no repetition."""
        return max(len(self.series) - self.repeats, 0) or len(self.series)

    @classmethod
    def of_losses(cls, curves: Iterable[tuple[str, Sequence[float]]], title: str, *, repeats: int = 0) -> Lines:
        """Draw losses over steps, on a logarithmic scale where they span orders of magnitude."""
        series = tuple((name, tuple(map(float, range(len(losses)))), tuple(losses)) for name, losses in curves)
        is_wide = spans_magnitudes(loss for _, _, losses in series for loss in losses)
        return cls(series, title, log_y=is_wide, repeats=repeats)

    @classmethod
    def of_steps(cls, name: str, steps: Iterable[float], values: Iterable[float], title: str) -> Lines:
        """Draw one curve over the steps of a training, with at most 2,000 points."""
        points = list(zip(map(float, steps), map(float, values), strict=True))
        points = points[:: max(1, len(points) // 2000)]
        series = ((name, tuple(x for x, _ in points), tuple(y for _, y in points)),)
        return cls(series, title, y_label=name, log_y=spans_magnitudes(y for _, y in points))


@dataclass(frozen=True)
class Panels(Exhibit):
    """Small multiples: one curve a panel, all on the same two scales, so that heights can be compared at a glance.

    `remarks` are a few words for each panel, and `marked` is the panel that stands out. With `only`, one panel is drawn
    on the scales of all, without its name, for a page that arranges them itself. The scale holds at least `span`.
    """

    kind: ClassVar[str] = "panels"
    series: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...]
    title: str = ""
    x_label: str = "step"
    y_label: str = "skill"
    remarks: tuple[str, ...] = ()
    marked: int | None = None
    only: int | None = None
    span: tuple[float, float] | None = None


@dataclass(frozen=True)
class HistogramGrid(Exhibit):
    """One histogram a row over common edges: layers by bins; the bins of `marked` stand out."""

    kind: ClassVar[str] = "histograms"
    rows: tuple[str, ...]
    edges: tuple[float, ...]
    counts: tuple[tuple[float, ...], ...]
    title: str = ""
    x_label: str = "value"
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table(Exhibit):
    """Rows of plain values under named columns; `samples` says that a row holds values of one sample of the data."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""
    samples: bool = False


@dataclass(frozen=True)
class Images(Exhibit):
    """Small pictures as uint8 arrays (height × width, or × 3) with a caption each."""

    kind: ClassVar[str] = "images"
    pictures: tuple[np.ndarray, ...]
    captions: tuple[str, ...] = ()
    title: str = ""

    @property
    def shows_samples(self) -> bool:
        """Whether it shows samples: pictures always do."""
        return True


def spans_magnitudes(values: Iterable[float]) -> bool:
    """Whether values are so far apart that only a logarithmic scale shows all of them."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) > 100 * min(finite)


_KINDS: dict[str, type[Exhibit]] = {kind.kind: kind for kind in (Bars, Lines, Panels, HistogramGrid, Table, Images)}


def exhibit_from_dict(data: Mapping[str, Any]) -> Exhibit:
    """Read back what `Exhibit.to_dict` wrote."""
    kind = _KINDS[data["kind"]]
    values = {part.name: _read(data[part.name]) for part in fields(kind) if part.name in data}
    if kind is Images:
        values["pictures"] = tuple(np.asarray(picture, dtype=np.uint8) for picture in data["pictures"])
    return kind(**values)


def _written(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_written(item) for item in value]
    if isinstance(value, np.generic):
        return _written(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(item) for item in value)
    return float(value) if isinstance(value, str) and value in {"nan", "inf", "-inf"} else value
