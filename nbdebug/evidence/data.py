"""What a look through the loader shows."""

from __future__ import annotations

__all__: list[str] = []
