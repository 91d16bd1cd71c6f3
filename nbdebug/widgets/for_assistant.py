"""The button that copies the report as text, to be pasted into a chat with an assistant."""

from __future__ import annotations

from html import escape

import ipywidgets as widgets

from nbdebug.widgets import bundle
from nbdebug.widgets.boxes import new_button

__all__ = ["MOST_COPIED", "copy_for_assistant"]

MOST_COPIED = 4000  # characters
ABOUT = "Copy the findings as text: the cause, its numbers and its fix, for a chat with an assistant"


def copy_for_assistant(text: str) -> list[widgets.Widget]:
    """Return the button with the text that it copies; nothing where there is none, or no front end that copies."""
    if not text or not bundle.is_built("stage_tree"):
        return []
    button = new_button("Copy for an assistant")
    button.tooltip = ABOUT
    for name in ("nbdebug-copy", "nbdebug-assistant"):
        button.add_class(name)
    # The text is far longer than a tooltip may be.
    hidden = widgets.HTML(
        f"<pre class='nbdebug-copied' hidden>{escape(text)}</pre>", layout=widgets.Layout(display="none")
    )
    return [button, hidden]
