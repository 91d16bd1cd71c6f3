"""The two outputs of a cell: a live view, and beside it the static form that stays when the kernel is gone.

A notebook that is reopened without its kernel shows an error in the place of a live view, and whatever other forms that
same output had are lost; so what stays has to be an output of its own. The live view hides it by its key.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.report.cell_output import CellOutput, in_notebook

__all__ = ["Output", "in_notebook", "live_forms"]


class Output:
    """What one cell shows; `key` names the static form, for the live view to hide it."""

    def __init__(self) -> None:
        self.key = secrets.token_hex(4)
        self._static: list[CellOutput] = []  # one for each cell that shows it

    def show(self, widget: Any, text: str, forms: Mapping[str, str]) -> None:
        """Display the live view, and the static forms under it, also as text; without a notebook, a line."""
        from IPython.display import display

        if not in_notebook():
            sys.stdout.write(f"{text}\n")
            return
        data, metadata = live_forms(widget, text)
        # Without its text, which a reader that cannot show widgets would print above the picture that says the same.
        display({kind: form for kind, form in data.items() if kind != "text/plain"}, metadata=metadata, raw=True)
        self._static.append(CellOutput())
        self._static[-1].show(self._marked(forms))

    def keep(self, forms: Callable[[], Mapping[str, str]]) -> None:
        """Put what is seen now into the static outputs, if there are any."""
        if self._static:
            marked = self._marked(forms())
            for output in self._static:
                output.show(marked)

    def _marked(self, forms: Mapping[str, str]) -> dict[str, str]:
        page = f'<div class="nbdebug-static nbdebug-static-{self.key}">{forms["text/html"]}</div>'
        return {**forms, "text/html": page}


def live_forms(widget: Any, text: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the forms and the metadata of a widget's output, with a text of our own."""
    live = widget._repr_mimebundle_(**options) or {}
    data, metadata = live if isinstance(live, tuple) else (live, {})
    return {**data, "text/plain": text}, metadata
