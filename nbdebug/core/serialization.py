"""Values as JSON can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Turn numbers, arrays and containers into what JSON can hold; non-finite numbers become their names."""
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate would crash every writer
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    for convert in ("item", "tolist"):  # numpy scalars, then arrays
        if hasattr(value, convert) and (convert == "tolist" or getattr(value, "size", 0) == 1):
            return plain(getattr(value, convert)())
    return plain(str(value))
