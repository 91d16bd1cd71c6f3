"""Notice that a model was changed or trained since it was measured, so that no old result passes for a new one."""

from __future__ import annotations

from nbdebug.engine.session import Session
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import unwrap
from nbdebug.widgets.keeping import needs_model, tells_of_data_only

__all__ = ["Noticing"]

TELLING = ("values", "memory", "shape", "requires_grad")  # and not that a gradient waits, or a value was written again


class Noticing:
    """What the model and the optimizer were when a session measured them first."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._remember()

    def stale(self) -> set[str]:
        """Return the checks whose results are out of date, and let the session measure anew what they rest on."""
        if not self._is_changed():
            return set()
        known = self.session.registry
        keep = tells_of_data_only(known)
        stale = {result.check for result in self.session.journal.results} - keep
        self.session.journal.forget(stale)
        self.session.forget([kind for kind, probe in known.probes.items() if needs_model(known, probe.needs)])
        self._remember()
        return stale

    def _remember(self) -> None:
        setup = self.session.setup
        self._snapshot = StateSnapshot(setup.model, setup.optimizer)
        self._modes = self._modes_now()

    def _modes_now(self) -> list[bool]:
        return [module.training for module in unwrap(self.session.setup.model).modules()]

    def _is_changed(self) -> bool:
        lines = self._snapshot.touched()
        return self._modes != self._modes_now() or any(word in line for line in lines for word in TELLING)
