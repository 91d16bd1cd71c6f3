"""What can be done about a finding: try each fix on a copy, copy its code, insert it as a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import ipywidgets as widgets

from nbdebug.widgets import bundle
from nbdebug.widgets.boxes import new_button

__all__ = ["Trial", "fix_rows"]

OnClick = Callable[[widgets.Button, Callable[[], None]], None]


@dataclass(frozen=True)
class Trial:
    """One fix: what it says, its code, what tries it on a copy (None where that cannot be), and whether it helped."""

    says: str
    code: str
    act: Callable[[], None] | None
    is_verified: bool = False


def fix_rows(
    trials: Sequence[Trial], on_click: OnClick, *, disabled: bool, beside: Sequence[Any] = ()
) -> tuple[list[Any], list[widgets.Button]]:
    """Return a row of buttons for each fix, the first one with the primary button, and those buttons that try one.

    What stands `beside` them goes into the first row.
    """
    rows, tries = [], []
    for number, trial in enumerate(trials):
        buttons: list[Any] = []
        if trial.act is not None:
            attempt = new_button("Try again on a copy" if trial.is_verified else "Try the fix on a copy")
            attempt.button_style = "" if number or trial.is_verified else "primary"
            attempt.disabled = disabled
            on_click(attempt, trial.act)
            buttons.append(attempt)
            tries.append(attempt)
        if trial.code and bundle.is_built("stage_tree"):  # it is the front end that copies
            buttons += [_code_button("Copy fix", trial, first=not number), _code_button("Insert as cell", trial)]
        if not buttons:
            continue
        if trial.is_verified and len(buttons) > 1:
            buttons = [*buttons[1:], buttons[0]]
        text = [widgets.HTML(f"<b>Or:</b> {escape(trial.says)}", layout=_wide())] if number else []
        rows.append(widgets.HBox([*buttons, *text], layout=_wide()))
    if rows:
        rows[0].children = (*rows[0].children, *beside)
    elif beside:
        rows.append(widgets.HBox(list(beside), layout=_wide()))
    return rows, tries


def _code_button(text: str, trial: Trial, *, first: bool = False) -> widgets.Button:
    """Return a button of which the front end takes the code: it is its tooltip."""
    button = new_button(text)
    button.tooltip = trial.code
    button.button_style = "primary" if first and (trial.is_verified or trial.act is None) else ""
    button.add_class(f"nbdebug-{text.split()[0].lower()}")
    return button


def _wide() -> widgets.Layout:
    return widgets.Layout(flex_flow="row wrap", min_width="0", align_items="center")
