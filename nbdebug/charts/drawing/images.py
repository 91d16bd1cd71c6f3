"""Images: small pictures of samples in a grid, with their captions."""

from __future__ import annotations

import numpy as np

from nbdebug.charts import Images
from nbdebug.charts.drawing.scale import heading
from nbdebug.charts.drawing.sheet import WIDTH, Pixels, Sheet, Words, clipped

__all__ = ["images", "pixels_of"]

COLUMNS, MOST = 4, 24


def images(exhibit: Images) -> Sheet:
    """Draw each picture as large as its cell allows."""
    sheet = Sheet()
    top, cell = heading(sheet, exhibit.title), WIDTH / COLUMNS
    for index, picture in enumerate(exhibit.pictures[:MOST]):
        x, y = cell * (index % COLUMNS), top + (cell + 12) * (index // COLUMNS)
        pixels = pixels_of(picture)
        grow = (cell - 10) / max(pixels.shape[:2])
        sheet.add(Pixels(x, y, grow * pixels.shape[1], grow * pixels.shape[0], pixels))
        if index < len(exhibit.captions):
            sheet.add(Words(x, y + cell + 3, clipped(exhibit.captions[index], 17), 10))
    rows = -(-min(len(exhibit.pictures), MOST) // COLUMNS)
    sheet.height = top + (cell + 12) * rows + 6
    if len(exhibit.pictures) > MOST:
        sheet.height += 16
        sheet.add(Words(0, sheet.height - 4, f"… and {len(exhibit.pictures) - MOST} more", 11))
    return sheet


def pixels_of(picture: np.ndarray) -> np.ndarray:
    """Return an array as gray or colored pixels, whatever its type and whether it has one channel."""
    values = np.asarray(picture)
    if values.dtype != np.uint8:
        values = np.clip(np.nan_to_num(values), 0, 255).astype(np.uint8)
    values = values[..., 0] if values.ndim == 3 and values.shape[-1] == 1 else values
    values = values if values.size else np.zeros((1, 1), np.uint8)
    return values[..., :3] if values.ndim == 3 else np.atleast_2d(values)
