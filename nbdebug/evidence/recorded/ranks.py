"""What the processes of a watched distributed training said, side by side."""

from __future__ import annotations

from nbdebug.core.registry import recorded
from nbdebug.errors import NotApplicable
from nbdebug.evidence.moving_buffers import MovingBuffers
from nbdebug.evidence.ranks import Ranks
from nbdebug.evidence.recording import Recording

__all__ = ["moving_buffers_recorded", "ranks_recorded"]


@recorded
def ranks_recorded(recording: Recording) -> Ranks:
    """Read the summaries gathered on rank 0."""
    if len(recording.ranks) < 2:
        raise NotApplicable("only one process was recorded")
    return Ranks(recording.ranks)


@recorded
def moving_buffers_recorded(recording: Recording) -> MovingBuffers:
    """Find the buffers that changed during training."""
    if len(recording.ranks) < 2 or not recording.steps:
        raise NotApplicable("only one process was recorded")
    return MovingBuffers(tuple(sorted({name for facts in recording.ranks for name in facts.moved})))
