"""The boxes and buttons that the wizard is made of, each with a class for its style sheet."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

__all__ = ["beside", "choice", "column", "fitting", "new_button", "new_fold", "row", "side_by_side", "wrapped"]


def fitting(fragment: str) -> str:
    """Return a fragment that wraps to the width that the cell has, instead of widening it."""
    return f"<div style='width:0;min-width:100%'>{fragment}</div>" if fragment else ""


def row(**more: str) -> widgets.Layout:
    """Return a layout that takes the whole width."""
    return widgets.Layout(width="100%", **more)


def wrapped(**more: str) -> widgets.Layout:
    """Return a layout whose children wrap to the next line."""
    return widgets.Layout(flex_flow="row wrap", **more)


def beside() -> widgets.Layout:
    """Return the layout of a text beside a button."""
    return widgets.Layout(flex="1 1 240px", min_width="0")


def side_by_side(name: str, children: list[Any]) -> widgets.HBox:
    """Return widgets side by side, as far as there is room, under a class for the style sheet."""
    box = widgets.HBox(children, layout=wrapped())
    box.add_class(f"nbdebug-{name}")
    return box


def column(name: str, children: list[Any]) -> widgets.VBox:
    """Return widgets one under another, under a class for the style sheet."""
    box = widgets.VBox(children, layout=widgets.Layout(min_width="0"))
    box.add_class(f"nbdebug-{name}")
    return box


def choice(name: str) -> widgets.Dropdown:
    """Return what was understood as a chip that can be changed in its place."""
    field = widgets.Dropdown(options=[("not known yet", "")], description=name, layout=widgets.Layout(width="auto"))
    field.add_class("nbdebug-choice")
    return field


def new_button(text: str, kind: str = "") -> widgets.Button:
    """Return a button as wide as its text; its kind is a class for the style sheet."""
    style = {"primary": "primary", "main": "primary"}.get(kind, "")
    button = widgets.Button(description=text, button_style=style, layout=widgets.Layout(width="auto"))
    if kind:
        button.add_class(f"nbdebug-{kind}")
    return button


def new_fold(text: str) -> widgets.ToggleButton:
    """Return a button that shows and hides something."""
    return widgets.ToggleButton(description=text, layout=widgets.Layout(width="auto", align_self="flex-start"))
