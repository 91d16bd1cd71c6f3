"""How the loss answers when outputs, targets and batch size are changed."""

from __future__ import annotations

__all__: list[str] = []
