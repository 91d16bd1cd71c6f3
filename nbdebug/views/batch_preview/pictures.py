"""Turn tensors into pictures: find the channels, undo the normalization, mark what is no number, and say all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nbdebug.setup.tensor_memory import array_of
from nbdebug.views.batch_preview.scaling import Scaling, find_scaling

__all__ = ["THUMB", "Album", "album_of", "channel_axis", "painted"]

THUMB = 112  # pixels of the longer side of a small picture
MOST_CHANNELS = 16
MOST_FRAMES = 6
MARK = np.array([255, 0, 255], dtype=np.uint8)  # NaN and infinity; no photograph has much of it
PALETTE = np.array(
    [
        [0, 0, 0], [230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66],
        [0, 114, 178], [213, 94, 0], [204, 121, 167], [153, 153, 153],
    ],
    dtype=np.uint8,
)  # fmt: skip  # Okabe and Ito; class 0 is usually the background and stays clear


@dataclass(frozen=True)
class Album:
    """The way in which the pictures of one input are shown: the axis of the channels, and what values mean."""

    axis: int  # of one sample's dimensions; -1 where there are no channels
    scaling: Scaling
    says: tuple[str, ...]

    def picture(self, sample: torch.Tensor, most: int = THUMB) -> np.ndarray:
        """Return one sample as uint8, height × width × 3, at most so large."""
        planes = _planes(sample.detach(), self.axis)
        bad = ~torch.isfinite(planes).all(0).numpy()
        tiles = self.scaling.to_unit(torch.nan_to_num(planes, nan=0.0, posinf=0.0, neginf=0.0)).numpy()
        if len(tiles) not in (1, 3):
            tiles, bad = _mosaic(tiles), _mosaic(np.repeat(bad[None], len(tiles), 0))[0]
        pixels = np.rint(tiles * 255).astype(np.uint8).transpose(1, 2, 0)
        return _fitted(np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels, bad, most)


def album_of(values: torch.Tensor, dataset: Any = None) -> Album:
    """Look at a batch of pictures, samples first, and decide how they are to be shown."""
    axis = channel_axis(values)
    first = (values.movedim(axis + 1, 1) if axis >= 0 else values[:, None]).float()
    scaling = find_scaling(first, dataset)
    channels = int(first.shape[1])
    says = ["channels last: permuted for display"] if axis == values.dim() - 2 else []
    says.append(scaling.says)
    if channels not in (1, 3):
        shown = f"the first {MOST_CHANNELS} of {channels}" if channels > MOST_CHANNELS else str(channels)
        says.append(f"{shown} channels, side by side in gray")
    if values.dim() == 5:
        says.append(f"frames or slices side by side, at most {MOST_FRAMES} of them")
    bad = ~torch.isfinite(first)
    if bool(bad.any()):
        hurt = int(bad.flatten(1).any(1).sum())
        says.append(
            f"{int(bad.any(1).sum()):,} pixels in {hurt} of {len(first)} samples are NaN or infinite, marked in magenta"
        )
    return Album(axis, scaling, tuple(says))


def channel_axis(values: torch.Tensor) -> int:
    """Return the axis of the channels within one sample: the one of a usual number, else the shorter; -1 for none."""
    if values.dim() == 3:
        return -1
    if values.dim() == 5:  # frames × channels × …, or channels × slices × …
        return 1 if values.shape[2] in (1, 3) else 0
    first, last = int(values.shape[1]), int(values.shape[3])
    usual = (1, 3, 4)
    if (first in usual) != (last in usual):
        return 0 if first in usual else 2
    return 0 if first <= last else 2


def painted(mask: torch.Tensor, most: int = THUMB) -> np.ndarray:
    """Return a map of class numbers as colors with transparency; class 0 and what is ignored stay clear."""
    classes = array_of(mask.cpu().long())
    colors = PALETTE[np.where(classes > 0, (classes - 1) % (len(PALETTE) - 1) + 1, 0)]
    alpha = np.where(classes > 0, 255, 0).astype(np.uint8)
    pixels = np.concatenate([colors, alpha[..., None]], 2)
    step = max(1, -(-max(pixels.shape[:2]) // most))
    return np.ascontiguousarray(pixels[::step, ::step])


def _planes(sample: torch.Tensor, axis: int) -> torch.Tensor:
    """Lay one sample out as channels × height × width; frames and slices come to stand side by side."""
    values = sample.float().cpu()
    values = values[None] if axis < 0 else values.movedim(axis, 0)
    if values.dim() == 4:  # channels × frames × height × width
        frames = int(values.shape[1])
        chosen = sorted({round(i * (frames - 1) / max(1, MOST_FRAMES - 1)) for i in range(MOST_FRAMES)})
        values = torch.cat([values[:, i] for i in chosen], dim=2)
    return values[:MOST_CHANNELS]


def _mosaic(tiles: np.ndarray) -> np.ndarray:
    """Set the channels side by side, in about a square."""
    count, height, width = tiles.shape
    across = min(max(int(np.ceil(np.sqrt(count * height / max(width, 1)))), 1), count)
    sheet = np.zeros((-(-count // across) * height, across * width), dtype=tiles.dtype)
    for place, tile in enumerate(tiles):
        y, x = place // across * height, place % across * width
        sheet[y : y + height, x : x + width] = tile
    return sheet[None]


def _fitted(pixels: np.ndarray, bad: np.ndarray, most: int) -> np.ndarray:
    """Make a picture smaller where it is too large; a marked pixel stays marked in the smaller one."""
    from PIL import Image

    height, width = pixels.shape[:2]
    if max(height, width) > most:
        size = (max(1, round(width * most / max(height, width))), max(1, round(height * most / max(height, width))))
        pixels = np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize(size, Image.Resampling.BOX)).copy()
        flags = Image.fromarray(bad.astype(np.uint8) * 255).resize(size, Image.Resampling.BOX)
        bad = np.asarray(flags) > 0
    pixels[bad] = MARK
    return pixels
