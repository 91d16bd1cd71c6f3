"""The wizard in the extension's panel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdebug.integrations.lab.channel import is_heard, send
from nbdebug.integrations.lab.linking import linked
from nbdebug.widgets.wizard import Wizard, wizard

__all__ = ["open_wizard", "shown_wizard", "stop_following"]

_shown: list[Wizard] = []  # the one in the panel


def open_wizard(*given: Any, names: Mapping[str, str], **options: Any) -> None:
    """Show the wizard where the extension wants it; what still holds of the one before is kept."""
    from IPython.display import display

    opened = wizard(**dict(zip(names, given, strict=True)), **options)
    if _shown:
        opened.take_over(_shown.pop())
    _shown.append(opened)

    def tell(event: Any = None) -> None:
        if is_heard() and (event is None or event.kind == "result"):
            send({"findings": linked(opened.report, names)})

    opened.session.journal.subscribe(tell)
    tell()
    display(opened)


def shown_wizard() -> Wizard | None:
    """Return the wizard of the panel, if one is open."""
    return _shown[-1] if _shown else None


def stop_following() -> None:
    """Let the wizard of the panel hear of no more trainings: the page that showed it is gone."""
    for opened in _shown:
        opened.stop_following()
