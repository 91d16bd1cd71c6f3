"""What changes between training and eval mode, from run to run, and since a checkpoint."""

from __future__ import annotations

__all__: list[str] = []
