"""Targets that are coordinates in an image: points or boxes, told by what the images show at these places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional as F

__all__ = ["Reading", "readings"]

OTHERS = 4  # targets of other samples, for comparison
INSIDE = 0.9  # of the places, which must lie in the image

Flip = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Reading:
    """What the columns of a target may mean, and how much more its images show at these places than at others.

    `z` is that over its standard error, after the better of two moves for each sample, and `sensitive` the mean change
    by the move relative to the gain: near 0 for places that the move leaves where they are.
    """

    name: str
    z: float
    sensitive: float


def readings(images: torch.Tensor, targets: torch.Tensor, flip: Flip) -> list[Reading]:
    """Return what the targets of these images may mean, the best first; `flip` is the move that some images made."""
    maps, found = _salience(images), []
    for name, boxes in _boxes(targets, images.shape[-2], images.shape[-1]):
        scores = torch.stack([_scores(m, boxes.roll(shift, 0)) for m in (maps, flip(maps)) for shift in range(OTHERS)])
        scores = scores.view(2, OTHERS, -1)
        better = scores.amax(0)
        gain = better[0] - better[1:].mean(0)
        z = float(gain.mean() / (gain.std() / math.sqrt(len(gain))).clamp(min=1e-9))
        change = float((scores[0, 0] - scores[1, 0]).abs().mean() / gain.mean().clamp(min=1e-9))
        found.append(Reading(name, z, change))
    return sorted(found, key=lambda reading: -reading.z)


def _salience(images: torch.Tensor) -> torch.Tensor:
    """Return how far each pixel is from the usual one of its image, in standard deviations, smoothed."""
    gray = images.double().mean(1)
    far = (gray - gray.flatten(1).median(1).values[:, None, None]).abs()
    smooth = F.avg_pool2d(far[:, None], 3, 1, 1, count_include_pad=False)[:, 0]
    return (smooth - smooth.mean((1, 2), keepdim=True)) / smooth.std((1, 2), keepdim=True).clamp(min=1e-9)


def _boxes(targets: torch.Tensor, height: int, width: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield targets as boxes in pixels (samples, boxes, left top right bottom), for all that their columns may mean."""
    flat = targets.double().flatten(1)
    columns = flat.shape[1]
    for scale, values in (("pixels", flat), ("0 to 1", flat * 1.0), ("-1 to 1", (flat + 1) / 2)):
        for order in ("x first", "y first"):
            side = torch.tensor([width, height] if order == "x first" else [height, width], dtype=torch.float64)
            pairs = values.view(len(values), -1, 2) if columns % 2 == 0 else None
            if pairs is None:
                continue
            pairs = pairs if scale == "pixels" else pairs * side
            pairs = pairs if order == "x first" else pairs.flip(-1)
            yield from _kept(f"points, {order}, {scale}", torch.cat([pairs - 1, pairs + 1], -1), height, width)
            if columns != 4:
                continue
            one, two = pairs[:, :1], pairs[:, 1:]
            shapes = {
                "corners": (one, two),
                "corner and size": (one, one + two),
                "center and size": (one - two / 2, one + two / 2),
            }
            for shape, (low, high) in shapes.items():
                if bool((high > low).double().mean() > INSIDE):
                    yield from _kept(f"boxes, {shape}, {order}, {scale}", torch.cat([low, high], -1), height, width)


def _kept(name: str, boxes: torch.Tensor, height: int, width: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield boxes that lie in the image and not all in one place."""
    low, high = boxes.amin(-1), boxes.amax(-1)
    inside = (low >= -2) & (boxes[..., [0, 2]].amax(-1) <= width + 2) & (boxes[..., [1, 3]].amax(-1) <= height + 2)
    if float(inside.double().mean()) >= INSIDE and float((high - low).mean()) > 0 and float(boxes.std(0).max()) > 1:
        yield name, boxes


def _scores(maps: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return the mean of each map inside of its boxes."""
    height, width = maps.shape[-2:]
    sums = F.pad(maps.cumsum(-1).cumsum(-2), (1, 0, 1, 0))
    edges = boxes.round().long()
    left, right = edges[..., 0].clamp(0, width - 1), edges[..., 2].clamp(1, width)
    top, bottom = edges[..., 1].clamp(0, height - 1), edges[..., 3].clamp(1, height)
    right, bottom = torch.maximum(right, left + 1), torch.maximum(bottom, top + 1)
    rows = torch.arange(len(maps))[:, None]
    total = sums[rows, bottom, right] - sums[rows, top, right] - sums[rows, bottom, left] + sums[rows, top, left]
    return (total / ((bottom - top) * (right - left))).mean(1)
