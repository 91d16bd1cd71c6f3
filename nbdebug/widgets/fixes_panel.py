"""What can be done about a finding: try each fix on a copy, copy its code, insert it as a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from nbdebug.core.finding import Finding
from nbdebug.report.words import in_order
from nbdebug.widgets import bundle
from nbdebug.widgets.boxes import new_button

__all__ = ["Trial", "Try", "fix_rows", "trials_of"]

Try = Callable[[Finding, int], None]
OnClick = Callable[[widgets.Button, Callable[[], None]], None]


@dataclass(frozen=True)
class Trial:
    """One fix: what it says, its code, what tries it on a copy (None where that cannot be), and whether it helped.

    `diff` is the fix as a patch of the user's own code, where their line is known: it is what is copied then. `heads`
    names the check whose first fix this is; empty for a fix that is an alternative to another.
    """

    says: str
    code: str
    act: Callable[[], None] | None
    is_verified: bool = False
    diff: str = ""
    heads: str = ""


def trials_of(findings: Sequence[Finding], try_remedy: Try) -> list[Trial]:
    """Return what the buttons of each fix need; of each finding those that are verified first."""
    trials = list[Trial]()
    for finding in findings:
        for remedy in in_order(finding):
            can_try = remedy.verifiable and finding.session is not None
            is_verified = any(v.verified and v.remedy == remedy for v in finding.verifications)
            heads = finding.check if finding.check not in {trial.heads for trial in trials} else ""
            act = partial(try_remedy, finding, finding.remedies.index(remedy)) if can_try else None
            trials.append(Trial(remedy.says, remedy.code, act, is_verified, remedy.diff, heads))
    return trials


def fix_rows(
    trials: Sequence[Trial], on_click: OnClick, *, disabled: bool, beside: Sequence[Any] = ()
) -> tuple[list[Any], list[Any], list[widgets.Button]]:
    """Return a row of buttons for the first fix of each check, one for each alternative, and the buttons that try one.

    The very first fix has the primary button, and what stands `beside` it.
    """
    rows, tries = dict[int, Any](), list[widgets.Button]()
    for number, trial in enumerate(trials):
        buttons: list[Any] = []
        if trial.act is not None:
            attempt = new_button("Try again on a copy" if trial.is_verified else "Try the fix on a copy")
            attempt.button_style = "" if number or trial.is_verified else "primary"
            attempt.disabled = disabled
            on_click(attempt, trial.act)
            buttons.append(attempt)
            tries.append(attempt)
        if bundle.is_built("stage_tree"):  # it is the front end that copies
            if trial.diff or trial.code:
                buttons.append(_code_button("Copy fix", trial, trial.diff or trial.code, first=not number))
            if trial.code:
                buttons.append(_code_button("Insert as cell", trial, trial.code))
        if not buttons:
            continue
        if trial.is_verified and len(buttons) > 1:
            buttons = [*buttons[1:], buttons[0]]
        lead = f"For <code>{escape(trial.heads)}</code>:" if trial.heads else "Or:"
        text = [widgets.HTML(f"<b>{lead}</b> {escape(trial.says)}", layout=_wide())] if number else []
        rows[number] = widgets.HBox([*buttons, *text], layout=_wide())
    if beside:
        first = rows.setdefault(0, widgets.HBox([], layout=_wide()))
        first.children = (*first.children, *beside)
    shown = {0, *(number for number, trial in enumerate(trials) if trial.heads)}
    first, others = ([row for number, row in rows.items() if (number in shown) is wanted] for wanted in (True, False))
    return first, others, tries


def _code_button(text: str, trial: Trial, code: str, *, first: bool = False) -> widgets.Button:
    """Return a button of which the front end takes the code: it is its tooltip."""
    button = new_button(text)
    button.tooltip = code
    button.button_style = "primary" if first and (trial.is_verified or trial.act is None) else ""
    button.add_class(f"nbdebug-{text.split()[0].lower()}")
    return button


def _wide() -> widgets.Layout:
    return widgets.Layout(flex_flow="row wrap", min_width="0", align_items="center")
