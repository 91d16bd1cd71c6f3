"""How a limited time is spent: what is cheap and most likely to explain a problem comes first.

Contradictions need no training and go first, then what else shows at a glance, then the gate (with its patience), then
the experiments that train. The race of the differential diagnosis has its part kept where the gate says "fails".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nbdebug.core.control import Control
from nbdebug.core.registry import CheckSpec, ProbeSpec, Registry
from nbdebug.engine.session import Session
from nbdebug.errors import Cancelled, NbdebugError
from nbdebug.evidence.learning_gate import FEWEST_STEPS, PATIENCE, STEPS, LearningGate
from nbdebug.sandbox import make_sandbox

__all__ = ["in_budget_order", "probes_behind", "says_budget", "time_one_step", "trains"]

WARM = 1  # steps before the one that is timed: the first one allocates


def in_budget_order(checks: Sequence[str], known: Registry) -> list[str]:
    """Return these checks in the order in which a budget is spent; within a kind they keep their order."""
    return sorted(checks, key=lambda check: _turn(known.find(check), known))


def _turn(spec: CheckSpec, known: Registry) -> int:
    probes = probes_behind(spec, known)
    if any(probe.yields is LearningGate for probe in probes):
        return 2
    return (0 if all(probe.is_quick for probe in probes) else 3) + (spec.basis == "statistic")


def probes_behind(spec: CheckSpec, known: Registry) -> list[ProbeSpec]:
    """Return every probe whose evidence a check is judged by, directly or through other evidence."""
    kinds, found = [need.kind for need in spec.needs.values()], dict[type, ProbeSpec]()
    while kinds:
        kind = kinds.pop()
        probe = known.probe_for(kind)
        if probe is not None and kind not in found:
            found[kind] = probe
            kinds += [need.kind for need in probe.needs.values()]
    return list(found.values())


def trains(checks: Iterable[str], known: Registry) -> bool:
    """Whether one of these checks is judged by an experiment that takes longer than some training steps."""
    return any(not probe.is_quick for check in checks for probe in probes_behind(known.find(check), known))


def time_one_step(session: Session) -> float:
    """Take a few training steps on a copy and return the seconds of the last one; NaN where none can be taken."""
    control = session.control

    def timed() -> float:
        sandbox = make_sandbox(session.setup, control)
        if sandbox.train_step is None:
            sandbox.ready_to_train()
        batch = sandbox.batch()
        begun = control.clock()
        for _ in range(WARM + 1):
            begun = control.clock()
            sandbox.own_step(batch.clone())
        return control.clock() - begun

    try:
        return session.experiment("timed_step", "Timing one training step", timed)
    except Cancelled:
        raise
    except NbdebugError:  # what keeps a step from being taken is said by its own check
        return math.nan
    except Exception:
        return math.nan


def says_budget(control: Control, step: float) -> str:
    """Return what a run may take, and how far that goes, judged by one timed step; empty without a limit."""
    if not control.has_budget:
        return ""
    text = f"at most about {control.budget:.3g} s"
    if control.quick or math.isnan(step):
        return text
    steps = int(control.budget / max(step, 1e-9))
    enough = "the whole training check" if steps >= 10 * STEPS else "a part of the training check"
    if steps < PATIENCE * FEWEST_STEPS:
        enough = "no training check"
    return f"{text}; a training step takes {_time(step)}, so {steps} fit: {enough}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms" if seconds < 1 else f"{seconds:.2g} s"
