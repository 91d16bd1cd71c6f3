"""The parts of the wizard that a person fills in: what only they can say, and the numbers of the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from nbdebug.core.registry import CheckSpec
from nbdebug.engine.decision_tree import Question, checked_answer, follow_of
from nbdebug.errors import BadInput
from nbdebug.widgets.screens import prose

__all__ = ["Answered", "Changed", "questions_panel", "thresholds_panel"]

Answered = Callable[[str, Any], None]
Changed = Callable[[str, str, Any], None]


def _wide(**more: str) -> widgets.Layout:
    """Return a layout that takes the width there is and wraps."""
    return widgets.Layout(width="100%", **more)


def questions_panel(questions: Sequence[Question], answers: Mapping[str, Any], answered: Answered) -> widgets.Widget:
    """Ask what only a person can say: each question with its reason, a control, and what follows from the answer."""
    return widgets.VBox([_asked(question, answers.get(question.id), answered) for question in questions])


def _asked(question: Question, answer: Any, answered: Answered) -> widgets.Widget:
    text = widgets.HTML(prose(f"<b>{escape(question.words)}</b><br>{escape(question.why)}"))
    advice = widgets.HTML(_advice(question, answer))
    field = _field(question, answer)

    def said(change: Any) -> None:
        try:
            value = _read(question, change["new"])
        except BadInput as error:  # errors in callbacks vanish, so it is said here
            advice.value = prose(f"<b>{escape(str(error))}</b>")
            return
        answered(question.id, value)
        advice.value = _advice(question, value)

    field.observe(said, "value")
    return widgets.VBox([text, field, advice], layout=_wide())


def _field(question: Question, answer: Any) -> Any:
    if question.answers:
        options = [*((choice, choice) for choice in question.answers), ("not answered", "")]
        field = widgets.ToggleButtons(options=options, value=answer or "", tooltips=[question.words] * len(options))
        field.add_class("nbdebug-answers")
        return field
    label = {"tooltip": question.words, "layout": widgets.Layout(width="auto", max_width="420px")}
    shown = "" if answer is None else str(answer)
    unit = f"a number, {question.unit}" if question.unit else "a number"
    hint = unit if question.kind == "number" else "your answer"
    return widgets.Text(shown, placeholder=hint, continuous_update=False, **label)


def _read(question: Question, text: str) -> Any:
    """Turn what was typed into an answer; an empty field takes the answer back."""
    if not text.strip():
        return None
    if question.kind != "number":
        return checked_answer(question.id, text)
    try:
        return checked_answer(question.id, float(text.strip().rstrip("%")) / (100 if text.strip().endswith("%") else 1))
    except ValueError:
        return checked_answer(question.id, text)  # which refuses it, and says what is expected


def _advice(question: Question, answer: Any) -> str:
    follow = follow_of(question, answer) if answer is not None else None
    return prose(f"<i>{escape(follow.advice)}</i>") if follow else ""


def thresholds_panel(specs: Sequence[CheckSpec], now: Mapping[str, Mapping[str, Any]], changed: Changed) -> Any:
    """Show the numbers by which the checks of a step judge, to be changed; what is no number stays as it is."""
    rows: list[Any] = []
    for spec in specs:
        numbers = {n: v for n, v in spec.thresholds.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
        rows += [
            _number(spec.id, name, value, now.get(spec.id, {}).get(name, value), changed)
            for name, value in numbers.items()
        ]
    return widgets.VBox(rows or [widgets.Label("The checks of this step have no numbers to change.")])


def _number(check: str, name: str, usual: float, value: float, changed: Changed) -> Any:
    kind = widgets.IntText if isinstance(usual, int) else widgets.FloatText
    field = kind(value, tooltip=f"{name} of {check}; usually {usual:g}", layout=widgets.Layout(width="110px"))
    field.observe(lambda change: changed(check, name, change["new"]), "value")
    text = widgets.HTML(f"<code>{escape(check)}</code> {escape(name)} <small>(usually {usual:g})</small>")
    return widgets.HBox([field, text], layout=_wide(flex_flow="row wrap"))
