"""A moving average of weights that does not average."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.step_events import StepEvents
from nbdebug.experiments.averaged_copies import Averaging

__all__ = ["moving_average_wrong"]

RIGHT = """with torch.no_grad():
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(0.999).add_(fast, alpha=0.001)"""
BUFFERS = """for slow, fast in zip(teacher.buffers(), student.buffers()):
    slow.copy_(fast)"""
SELDOM = """if step % 1000 == 0:
    target.load_state_dict(online.state_dict())"""


@check
def moving_average_wrong(
    events: StepEvents,
    *,
    reversed_below: float = 0.5,  # published moving averages keep at least 0.9 of themselves; our choice
    constant: float = 0.02,  # most that the share kept may vary; warm-ups of a decay rise by more; our choice
    calls: int = 3,  # updates that are needed to tell a constant decay from a warm-up; our choice
) -> Iterator[Finding]:
    """A moving average of the weights (EMA teacher, target network) is reversed, a plain copy, its own, or trained.

    nbdebug finds networks of the same shape, calls your training step on a copy, and measures which share of its own
    weights each one keeps when it is moved towards the other: 0.999 is usual. A warm-up of the decay and a copy every
    so many steps are fine.

    Why it matters: with the decay reversed the teacher is the student of one step ago and stabilizes nothing. A target
    network that is copied in every step gives moving targets, and one that an optimizer trains too is no average.

    What to try: `slow.mul_(decay).add_(fast, alpha=1 - decay)`; copy a target network every thousand steps; leave
    averaged weights out of the optimizer.
    """
    if not events.is_step:
        raise NotApplicable("no train_step was passed, so no update of weights was observed")
    for name in events.loads_of_itself:
        yield _own_weights(name, events.calls)
    for average in events.averages:
        keeps = average.keeps
        if average.stepped and average.stepped == average.calls and max(keeps) >= reversed_below:
            says = (
                f"`{average.network}` is a moving average of `{average.source}` and is updated by an optimizer as well."
            )
            yield _finding(average, says, "suspect", "Leave the averaged network out of the optimizer.", RIGHT)
        elif len(keeps) >= calls and average.stale == average.calls and any(keeps) and average.is_whole:
            says = (
                f"`{average.network}` averages the weights of `{average.source}`, but not its buffers: the running "
                "statistics that it uses in eval mode stay at their first values."
            )
            yield _finding(average, says, "suspect", "Copy the buffers as well.", BUFFERS)
        elif len(keeps) < calls or max(keeps) - min(keeps) > constant or average.stepped:
            continue
        elif not any(keeps) and average.uses >= calls and average.equal_when_used >= average.uses - 1:
            says = (
                f"`{average.network}` is set to the weights of `{average.source}` in each of {len(keeps)} calls, and "
                "is identical to it whenever it runs."
            )
            yield _finding(average, says, "suspect", "Copy the weights less often, or average them.", SELDOM)
        elif any(keeps) and max(keeps) < reversed_below:
            says = (
                f"`{average.network}` keeps only {keeps[-1]:.3g} of its weights per update and takes the rest from "
                f"`{average.source}`: the decay looks reversed."
            )
            yield _finding(average, says, "suspect", "Keep most of the old weights.", RIGHT)


def _own_weights(name: str, calls: int) -> Finding:
    return Finding(
        f"`{name}` loads its own weights: `load_state_dict` receives the tensors that it holds, which changes nothing.",
        where=name,
        evidence={
            "calls": calls,
            "threshold": "other tensors than its own",
            "source": "state_dict() returns references, not copies",
        },
        remedies=(
            Remedy("Load the weights of the trained network.", "target.load_state_dict(online.state_dict())"),
            Remedy("Copy what is to be restored.", "best = copy.deepcopy(model.state_dict())"),
        ),
    )


def _finding(average: Averaging, says: str, severity: Severity, fix: str, code: str) -> Finding:
    return Finding(
        says,
        where=average.network,
        severity=severity,
        evidence={
            "share kept per update": list(average.keeps),
            "updates by an optimizer": average.stepped,
            "calls": average.calls,
            "threshold": "keeps most of its weights",
            "source": "Mean Teacher, DQN, MoCo: 0.9 to 0.9999",
        },
        remedies=(Remedy(fix, code),),
    )
