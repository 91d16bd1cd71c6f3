"""The recording of a real training, where there is one."""

from __future__ import annotations

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Recording
from nbdebug.registry import probe

__all__ = ["recording"]


@probe
def recording() -> Recording:
    """Read the recording of nbdebug.watch."""
    raise NotApplicable("no training run was recorded; use `with nbdebug.watch(model, optimizer) as live:`")
