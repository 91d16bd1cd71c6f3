"""A batch in its three forms: plain data for the front end, a static page, and text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nbdebug.charts import Bars, Images, Lines
from nbdebug.charts.draw import as_png
from nbdebug.core.text import clean_text
from nbdebug.views import page
from nbdebug.views.batch_preview.preview import BatchView, Part, SampleFacts, SampleView, TokenLine, Waveform

__all__ = ["as_data", "as_html", "as_png_of", "as_text", "sample_data"]

BINS = 12
STATIC_SAMPLES = 24


def as_data(view: BatchView) -> dict[str, Any]:
    """Return the batch as the front end takes it."""
    return {
        "number": view.number,
        "of": view.of,
        "size": view.size,
        "draws": view.draws,
        "model": view.model,
        "canRedraw": view.can_redraw,
        "notes": list(view.notes),
        "classes": [list(pair) for pair in view.class_counts],
        "parts": [_part(part) for part in view.parts],
        "samples": [_sample(sample) for sample in view.samples],
    }


def sample_data(view: SampleView, place: int) -> dict[str, Any]:
    """Return one sample by itself as the front end takes it."""
    groups = (("large", view.large), ("draws", view.draws), ("raw", view.raw))
    return {"place": place, "index": view.index, "notes": list(view.notes)} | {
        name: [_part(part) for part in parts] for name, parts in groups
    }


def as_text(view: BatchView) -> str:
    """Return the batch as a terminal shows it."""
    lines = [title_of(view)]
    lines += [f"  {_described(part)}" for part in view.parts]
    if view.class_counts:
        lines.append("  classes: " + ", ".join(f"{name} ×{count}" for name, count in view.class_counts[:20]))
    lines += [f"  {note}" for note in view.notes]
    lines += [f"  {_caption(sample, place)}" for place, sample in list(enumerate(view.samples))[:12]]
    more = len(view.samples) - 12
    return clean_text("\n".join([*lines, f"  … and {more} more"] if more > 0 else lines))


def as_html(view: BatchView) -> str:
    """Return the batch as a static page."""
    parts = [page.lines([*map(_described, view.parts), *view.notes])]
    parts += [_static(part, view) for part in view.parts]
    if not any(part.kind in ("image", "mask") for part in view.parts):
        captions = [_caption(sample, place) for place, sample in enumerate(view.samples[:STATIC_SAMPLES])]
        parts.append(page.lines(captions))
    if len(view.class_counts) > 1:
        names, counts = zip(*view.class_counts, strict=True)
        bars = Bars(tuple(names), tuple(float(c) for c in counts), "samples per class in this batch")
        parts.append(page.drawn(bars, "samples per class", 420))
    return page.page(title_of(view), *parts)


def as_png_of(view: BatchView) -> bytes:
    """Return the pictures of a batch as one picture; empty where there are none."""
    for part in view.parts:
        if part.kind == "image" and part.role == "input":
            captions = tuple(_caption(sample, place) for place, sample in enumerate(view.samples))
            return as_png(Images(part.items[:STATIC_SAMPLES], captions, title_of(view)))
    return b""


def title_of(view: BatchView) -> str:
    """Say which batch it is, and how the model does on it."""
    of = f" of {view.of}" if view.of is not None else ""
    again = f", drawn {view.draws} times" if view.draws > 1 else ""
    wrong = f"; {view.model} is wrong on {view.wrong} of {len(view.samples)}" if view.wrong is not None else ""
    return f"Batch {view.number}{of}: {view.size} samples{again}{wrong}"


def _described(part: Part) -> str:
    shape = " × ".join(map(str, part.shape))
    said = f" ({'; '.join(part.says)})" if part.says else ""
    role = f"{part.role} " if part.role != part.name else ""
    return f"{role}{part.name}: {part.kind}, {shape} {part.dtype}{said}"


def _caption(sample: SampleFacts, place: int) -> str:
    words = [f"#{sample.index if sample.index is not None else place}", sample.target]
    if sample.predicted:
        sure = f" {sample.confidence:.0%}" if sample.confidence is not None else ""
        mark = {True: " ✓", False: " ✗", None: ""}[sample.right]
        words.append(f"→ {sample.predicted}{sure}{mark}")
    if sample.loss is not None:
        words.append(f"loss {sample.loss:.3g}")
    return " ".join(word for word in words if word)


def _static(part: Part, view: BatchView) -> str:
    captions = [_caption(sample, place) for place, sample in enumerate(view.samples)]
    items = part.items[:STATIC_SAMPLES]
    if part.kind in ("image", "mask"):
        return page.pictures(list(zip(items, captions, strict=False)))
    if part.kind == "table":
        rows = [[captions[i], *(float(v) for v in row)] for i, row in enumerate(items[:12])]
        return page.table(["", *part.columns], rows)
    if part.kind == "series":
        series = tuple(line for i, item in enumerate(items[:4]) for line in _curves(item, captions[i]))
        return page.drawn(Lines(series[:10], part.name, "step", "value"), part.name)
    if part.kind == "tokens":
        return page.lines(_sentence(item) for item in items[:12])
    return page.lines(str(item) for item in items[:12])


def _curves(item: Waveform, caption: str) -> list[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    xs = tuple(float(x) for x in np.linspace(0, item.steps - 1, item.low.shape[1]))
    middle = (item.low + item.high) / 2
    return [(f"{caption} [{i}]", xs, tuple(float(v) for v in row)) for i, row in enumerate(middle)]


def _sentence(item: TokenLine) -> str:
    real = [word for word, padding in zip(item.words, item.padding, strict=True) if not padding]
    filled = sum(item.padding)
    return " ".join(real) + (f" … {item.more} more" if item.more else "") + (f" ({filled} padding)" if filled else "")


def _part(part: Part) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": part.name,
        "role": part.role,
        "kind": part.kind,
        "shape": " × ".join(map(str, part.shape)),
        "dtype": part.dtype,
        "says": list(part.says),
        "items": [_item(item) for item in part.items],
    }
    if part.kind == "table":
        data["columns"] = list(part.columns)
        data["histograms"] = [_histogram(column) for column in np.asarray(part.items).reshape(len(part.items), -1).T]
    return data


def _item(item: Any) -> Any:
    if isinstance(item, TokenLine):
        return {"words": list(item.words), "padding": [int(p) for p in item.padding], "more": item.more}
    if isinstance(item, Waveform):
        curves = {"low": _rows(item.low), "steps": item.steps, "more": item.more}
        return curves if item.high is item.low else {**curves, "high": _rows(item.high)}
    if isinstance(item, np.ndarray) and item.dtype == np.uint8:
        return page.address_of(item)
    return [_number(value) for value in item] if isinstance(item, np.ndarray) else item


def _rows(values: np.ndarray) -> list[list[float | None]]:
    return [[_number(value) for value in row] for row in values]


def _number(value: float) -> float | None:
    """Return a number that JSON can hold, with four digits, which is more than a screen shows."""
    return float(f"{float(value):.4g}") if math.isfinite(value) else None


def _histogram(column: np.ndarray) -> dict[str, Any]:
    finite = column[np.isfinite(column)]
    if not len(finite):
        return {"counts": [], "low": None, "high": None}
    counts, edges = np.histogram(finite, BINS)
    return {"counts": counts.tolist(), "low": _number(edges[0]), "high": _number(edges[-1])}


def _sample(sample: SampleFacts) -> dict[str, Any]:
    return {
        "index": sample.index,
        "target": sample.target,
        "predicted": sample.predicted,
        "confidence": _number(sample.confidence) if sample.confidence is not None else None,
        "loss": page.number(sample.loss),
        "right": sample.right,
    }
