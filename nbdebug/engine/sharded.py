"""What a diagnosis of a sharded model leaves out: what judges the values of weights that no process holds in whole."""

from __future__ import annotations

from collections.abc import Sequence

from nbdebug.core.finding import Result
from nbdebug.engine.budgeting import probes_behind
from nbdebug.engine.session import Session
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup

__all__ = ["without_values"]

OF_VALUES = "it judges the values of the weights, of which no rank holds all (the model is sharded)"
OF_TRAINED = "it continues a training whose weights no rank holds in whole (the model is sharded)"


def without_values(session: Session, checks: Sequence[str]) -> list[str]:
    """Return the checks that can be judged on a stand-in; the others are written down as skipped, with the reason."""
    setup = session.setup.stands_for
    if setup is None or session.setup.no_copy:
        return list(checks)
    kept, has_begun = [], _has_begun(setup)
    for check in checks:
        spec = session.registry.find(check)
        probes = probes_behind(spec, session.registry)
        on_copy = any(need.kind is Sandbox for probe in probes for need in probe.needs.values())
        trains = not all(probe.is_quick for probe in probes)
        reason = OF_VALUES if on_copy and spec.basis == "statistic" else OF_TRAINED if trains and has_begun else ""
        if reason:
            session.journal.write(Result(check, "skipped", reason=reason))
        else:
            kept.append(check)
    return kept


def _has_begun(setup: Setup) -> bool:
    return bool(getattr(setup.optimizer, "state", None))
