"""The wizard's tree of stages and steps: which ran, what they found, which one is shown.

Two widgets have the same interface, ``stages`` and an observable ``selected``: the anywidget `StageTree`, and
`PlainStageTree` made of ipywidgets' buttons for an installation without the bundle. `stage_tree` chooses.
To show a change, assign a new list to ``stages``; rows are updated in place, so that focus stays where it is.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypedDict

import anywidget
import ipywidgets
import traitlets

from nbdebug.engine.decision_tree.states import ICONS, WORDS, State
from nbdebug.widgets import bundle


class Step(TypedDict):
    """One step of a stage; ``count`` is the number of its findings."""

    id: str
    title: str
    state: State
    count: int


class Stage(TypedDict):
    """One stage of the tree with its steps in order."""

    id: str
    title: str
    state: State
    steps: list[Step]


# The number of a stage, and the number of a step in it or None for the stage itself.
Place = tuple[int, int | None]


class StageTree(anywidget.AnyWidget):
    """The tree drawn by its own front end; a click on a row sets ``selected`` to the row's id."""

    stages: Any = traitlets.List().tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)  # of the static output that it takes the place of
    form = traitlets.Unicode("tree").tag(sync=True)  # tree, map (stages side by side, a dot a step) or list
    heard = traitlets.Int().tag(sync=True)  # clicks on the wizard's buttons that have arrived

    def __init__(self, stages: Sequence[Stage] = (), selected: str = "", key: str = "", form: str = "tree") -> None:
        # Read here and not in the class body: the module can then be imported without the bundle.
        script, style = bundle.read("stage_tree")
        self.add_traits(_esm=traitlets.Unicode(script).tag(sync=True), _css=traitlets.Unicode(style).tag(sync=True))
        super().__init__(stages=list(stages), selected=selected, key=key, form=form)

    @traitlets.validate("stages")
    def _validate_stages(self, proposal: dict[str, Any]) -> list[Stage]:
        return checked(proposal["value"])


class PlainStageTree(ipywidgets.VBox):
    """The same tree made of plain buttons, for an installation without the bundle."""

    children: Any
    stages: Any = traitlets.List()
    selected = traitlets.Unicode()
    heard = traitlets.Int()

    def __init__(self, stages: Sequence[Stage] = (), selected: str = "") -> None:
        self._buttons: dict[Place, ipywidgets.Button] = {}
        super().__init__()
        self.observe(self._draw, ["stages", "selected"])
        self.stages = list(stages)
        self.selected = selected

    @traitlets.validate("stages")
    def _validate_stages(self, proposal: dict[str, Any]) -> list[Stage]:
        return checked(proposal["value"])

    def _draw(self, _change: object = None) -> None:
        rows = dict(_rows(self.stages))
        for place, row in rows.items():
            button = self._buttons.get(place) or self._new_button(place)
            button.description = f"{ICONS[row['state']]} {row['title']} ({_words(row)})"
            button.tooltip = row["title"]
            button.button_style = "primary" if row["id"] == self.selected else ""
        shown = tuple(self._buttons[place] for place in rows)
        if shown != self.children:
            self.children = shown

    def _new_button(self, place: Place) -> ipywidgets.Button:
        indent = "0" if place[1] is None else "24px"
        layout = ipywidgets.Layout(width="auto", margin=f"1px 0 1px {indent}")
        button = ipywidgets.Button(layout=layout)
        button.on_click(partial(self._choose, place))
        self._buttons[place] = button
        return button

    def _choose(self, place: Place, _button: ipywidgets.Button) -> None:
        self.selected = dict(_rows(self.stages))[place]["id"]


def stage_tree(
    stages: Sequence[Stage] = (), selected: str = "", key: str = "", form: str = "tree"
) -> StageTree | PlainStageTree:
    """Return the tree with its own front end where that was built, else one of plain ipywidgets.

    `key` names the static output that is hidden while the tree is live; `form` says how the rows stand: one under
    another, as a map of the stages with a dot for each step, or as the list of the steps of one stage.
    """
    if bundle.is_usable("stage_tree"):
        return StageTree(stages, selected, key, form)
    return PlainStageTree(stages, selected)


def checked(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages unchanged, or say which row has a state that the tree cannot show."""
    for _, row in _rows(stages):
        if row["state"] not in ICONS:
            raise traitlets.TraitError(
                f"The row {row['id']!r} has the state {row['state']!r}; expected one of {', '.join(ICONS)}."
            )
    return list(stages)


def _rows(stages: Sequence[Stage]) -> Iterator[tuple[Place, Stage | Step]]:
    for number, stage in enumerate(stages):
        yield (number, None), stage
        for index, step in enumerate(stage["steps"]):
            yield (number, index), step


def _words(row: Stage | Step) -> str:
    count = row.get("count", 0)
    return f"{count} found" if row["state"] == "found" and count else WORDS[row["state"]]
