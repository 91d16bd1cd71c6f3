"""What do the processes of a distributed training say, side by side?"""

from __future__ import annotations

from nbdebug.control import Control
from nbdebug.distributed.facts import as_facts
from nbdebug.distributed.meeting import ARRIVAL
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Ranks
from nbdebug.registry import probe
from nbdebug.subject import Subject

__all__ = ["ranks_met"]


@probe
def ranks_met(subject: Subject, control: Control) -> Ranks:
    """Collect the model and data summaries of all ranks."""
    meeting = subject.meeting
    if meeting is None:
        raise NotApplicable("there is only one process")
    if not meeting.is_first:
        raise NotApplicable("rank 0 compares the ranks and reports")
    heard = meeting.hear("facts", ARRIVAL, control.poll)
    if not heard:
        raise NotApplicable("; ".join(meeting.missing.values()))
    return Ranks((subject.meeting_facts, *(as_facts(heard[rank]) for rank in sorted(heard))))
