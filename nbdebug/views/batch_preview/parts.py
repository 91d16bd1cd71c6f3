"""Build what is shown of one input or target: pictures, rows, tokens, curves or words, one item a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbdebug.setup.recognition import folded_side, kind_of, time_axis
from nbdebug.setup.tensor_memory import array_of
from nbdebug.views.batch_preview.pictures import THUMB, album_of, painted
from nbdebug.views.batch_preview.preview import Part, Role, TokenLine, Waveform

__all__ = ["Taste", "part_of", "text_of"]

STRETCHES = 160  # points of a curve
MOST_CURVES, MOST_TOKENS, MOST_COLUMNS = 6, 160, 60
Words = Callable[[int], str]


@dataclass(frozen=True)
class Taste:
    """What the viewer was told: names of columns, words of tokens, the id of padding, and how large pictures are."""

    columns: tuple[str, ...] = ()
    words: Words | None = None
    padding: int | None = None
    dataset: Any = None
    masks: dict[str, torch.Tensor] = field(default_factory=dict)  # of padding, by the name of the tokens
    most: int = THUMB


def part_of(name: str, role: Role, values: torch.Tensor, taste: Taste) -> Part:
    """Show a tensor whose first dimension counts the samples."""
    values = _plain(values)
    kind = kind_of(name, values, is_target=role != "input")
    build = {
        "image": _images,
        "mask": _masks,
        "table": _table,
        "tokens": _tokens,
        "series": _series,
        "value": _values,
    }[kind]
    items, says, columns = build(name, values, taste)
    shape, dtype = tuple(int(n) for n in values.shape), str(values.dtype).removeprefix("torch.")
    return Part(name, role, kind, shape, dtype, tuple(says), tuple(items), tuple(columns))


def text_of(value: Any) -> str:
    """Describe anything in a few words: small things by their values, large ones by their shape and range."""
    if isinstance(value, torch.Tensor):
        if value.numel() <= 6:
            return ", ".join(f"{float(v):.4g}" for v in value.flatten()) if not value.is_complex() else str(value)
        numbers = value.detach().float() if not value.is_complex() else value.detach().abs().float()
        low, high = (float(numbers.min()), float(numbers.max())) if numbers.numel() else (0.0, 0.0)
        return f"{' × '.join(map(str, value.shape))} from {low:.3g} to {high:.3g}"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {text_of(item)}" for key, item in value.items())[:400]
    return str(value)[:400]


Built = tuple[Sequence[Any], Sequence[str], Sequence[str]]


def _plain(values: torch.Tensor) -> torch.Tensor:
    values = values.detach()
    values = values.to_dense() if values.layout is not torch.strided else values
    values = values.dequantize() if values.is_quantized else values
    return values.float().cpu() if values.dtype in (torch.float16, torch.bfloat16, torch.float64) else values.cpu()


def _images(name: str, values: torch.Tensor, taste: Taste) -> Built:
    says: list[str] = []
    side = folded_side(values) if values.dim() == 2 else 0
    if side:
        values = values.reshape(len(values), side, side)
        says.append(f"rows of {side * side} values, reshaped to {side} × {side} for display")
    album = album_of(values, taste.dataset)
    return [album.picture(sample, taste.most) for sample in values], [*says, *album.says], ()


def _masks(name: str, values: torch.Tensor, taste: Taste) -> Built:
    found = [int(v) for v in torch.unique(values)[:12]]
    says = [f"classes: {', '.join(map(str, found))}{' …' if len(found) == 12 else ''}; class 0 is transparent"]
    return [painted(sample, taste.most) for sample in values], says, ()


def _table(name: str, values: torch.Tensor, taste: Taste) -> Built:
    rows = values.reshape(len(values), -1)
    width = int(rows.shape[1])
    says = [f"the first {MOST_COLUMNS} of {width} columns"] if width > MOST_COLUMNS else []
    bad = int((~torch.isfinite(rows.float())).sum())
    if bad:
        says.append(f"NaN or infinite values: {bad:,}")
    names = taste.columns if len(taste.columns) == width else (name,) if width == 1 else tuple(map(str, range(width)))
    shown = array_of(rows[:, :MOST_COLUMNS].float()).astype(np.float64)
    return list(shown), says, names[:MOST_COLUMNS]


def _tokens(name: str, values: torch.Tensor, taste: Taste) -> Built:
    padding, says = _padding_of(name, values, taste)
    words = taste.words or str
    cut = min(int(values.shape[1]), MOST_TOKENS)
    lines = [
        TokenLine(
            tuple(words(int(i)) for i in row[:cut]), tuple(bool(p) for p in pad[:cut]), int(values.shape[1]) - cut
        )
        for row, pad in zip(values, padding, strict=True)
    ]
    real = float((~padding).float().mean())
    return lines, [*says, f"{real:.0%} of the positions are not padding"] if bool(padding.any()) else says, ()


def _padding_of(name: str, values: torch.Tensor, taste: Taste) -> tuple[torch.Tensor, list[str]]:
    """Find the places that only fill up: by a mask, by the tokenizer, by −100, or by what most rows end with."""
    mask = taste.masks.get(name)
    if mask is not None:
        return mask.cpu() == 0, ["padding grayed out by the mask"]
    if bool((values == -100).any()):
        return values == -100, ["−100 (ignored by the loss) is grayed out"]
    if taste.padding is not None:
        return values == taste.padding, [f"padding (id {taste.padding}) grayed out"]
    last = values[:, -1]
    filler = int(last.mode().values)
    tails = (values.flip(1) == filler).long().cumprod(1)
    lengths = tails.sum(1)
    if int((lengths > 0).sum()) >= 2 and len(torch.unique(lengths)) > 1 and int(lengths.max()) > 1:
        return tails.flip(1).bool(), [f"id {filler} at the ends is treated as padding and grayed out"]
    return torch.zeros_like(values, dtype=torch.bool), []


def _series(name: str, values: torch.Tensor, taste: Taste) -> Built:
    axis = time_axis(values)
    ordered = values[:, None] if values.dim() == 2 else values.movedim(axis, 2)  # samples × channels × time
    says = []
    if values.dim() == 3 and axis == 1:
        says.append("time is the second dimension")
    if ordered.shape[1] > MOST_CURVES:
        says.append(f"the first {MOST_CURVES} of {ordered.shape[1]} channels")
    if ordered.shape[2] > STRETCHES:
        says.append(f"{ordered.shape[2]:,} steps, drawn as the range of each of {STRETCHES} intervals")
    bad = int((~torch.isfinite(ordered.float())).sum())
    if bad:
        says.append(f"NaN or infinite values, which leave gaps: {bad:,}")
    return [_waveform(array_of(sample.float())) for sample in ordered], says, ()


def _waveform(sample: np.ndarray) -> Waveform:
    channels, steps = sample.shape
    kept = np.where(np.isfinite(sample[:MOST_CURVES]), sample[:MOST_CURVES], np.nan)
    if steps <= STRETCHES:
        return Waveform(kept, kept, steps, max(0, channels - MOST_CURVES))
    bounds = np.linspace(0, steps, STRETCHES + 1).astype(int)[:-1]
    low, high = np.fmin.reduceat(kept, bounds, axis=1), np.fmax.reduceat(kept, bounds, axis=1)
    return Waveform(low, high, steps, max(0, channels - MOST_CURVES))


def _values(name: str, values: torch.Tensor, taste: Taste) -> Built:
    return [text_of(sample) for sample in values], (), ()
