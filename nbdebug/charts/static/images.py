"""Images: small pictures of samples in a grid, with their captions."""

from __future__ import annotations

from nbdebug.charts import Images
from nbdebug.charts.pixels import pixels_of
from nbdebug.charts.static.sheet import WIDTH, Sheet, below_title
from nbdebug.core.text import clipped

__all__ = ["images"]

COLUMNS, MOST = 4, 24


def images(exhibit: Images) -> Sheet:
    """Draw each picture as large as its cell allows."""
    top, cell = below_title(exhibit.title), WIDTH / COLUMNS
    rows = -(-min(len(exhibit.pictures), MOST) // COLUMNS)
    more = len(exhibit.pictures) - MOST
    sheet = Sheet(top + (cell + 12) * rows + 6 + (16 if more > 0 else 0), exhibit.title)
    placed = []
    for index, picture in enumerate(exhibit.pictures[:MOST]):
        x, y = cell * (index % COLUMNS), top + (cell + 12) * (index // COLUMNS)
        pixels = pixels_of(picture)
        grow = (cell - 10) / max(pixels.shape[:2])
        placed.append((x, y, grow * pixels.shape[1], grow * pixels.shape[0], pixels))
        if index < len(exhibit.captions):
            sheet.text(x, y + cell + 3, clipped(exhibit.captions[index], 17), 10)
    sheet.images(placed)
    if more > 0:
        sheet.text(0, sheet.height - 4, f"… and {more} more", 11)
    return sheet
