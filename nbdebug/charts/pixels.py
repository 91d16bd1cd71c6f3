"""Arrays as small PNG images, without a plotting library."""

from __future__ import annotations

import io

import numpy as np

__all__ = ["picture_of", "pixels_of", "png_bytes"]


def picture_of(pixels: np.ndarray) -> bytes:
    """Return one sample as a PNG of its own."""
    return png_bytes(pixels_of(pixels))


def pixels_of(picture: np.ndarray) -> np.ndarray:
    """Return an array as gray or colored pixels, whatever its type and whether it has one channel."""
    values = np.asarray(picture)
    if values.dtype != np.uint8:
        values = np.clip(np.nan_to_num(values), 0, 255).astype(np.uint8)
    values = values[..., 0] if values.ndim == 3 and values.shape[-1] == 1 else values
    values = values if values.size else np.zeros((1, 1), np.uint8)
    return values[..., :3] if values.ndim == 3 else np.atleast_2d(values)


def png_bytes(pixels: np.ndarray) -> bytes:
    """Encode a uint8 array as PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="png")
    return buffer.getvalue()
