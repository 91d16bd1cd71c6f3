"""The tree of stages, with its own front end and as plain ipywidgets."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import traitlets

from nbdebug.widgets import bundle
from nbdebug.widgets.stage_tree import ICONS, WORDS, PlainStageTree, Stage, StageTree, stage_tree

ROOT = Path(__file__).parents[2]
INJECTED = "<img src=x onerror=alert(1)>"


def stages(state: Any = "not-run", count: int = 0) -> list[Stage]:
    return [
        {
            "id": "data",
            "title": "The data",
            "state": "clean",
            "steps": [{"id": "nan-inputs", "title": INJECTED, "state": state, "count": count}],
        },
        {"id": "model", "title": "The model", "state": "not-run", "steps": []},
    ]


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stage_tree.js").write_text("export default { render() {} };")
    (tmp_path / "stage_tree.css").write_text(".nbdebug-stage-tree {}")
    monkeypatch.setattr(bundle, "STATIC", tmp_path)


@pytest.fixture
def unbundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "STATIC", tmp_path)


@pytest.fixture(params=["bundled", "unbundled"])
def tree(request: pytest.FixtureRequest) -> StageTree | PlainStageTree:
    request.getfixturevalue(request.param)
    return stage_tree(stages(), selected="data")


def test_the_bundle_is_used_where_it_is_built(bundled: None) -> None:
    tree = stage_tree(stages())
    assert isinstance(tree, StageTree)
    state = tree.get_state()
    assert state["_esm"].startswith("export default")
    assert state["_css"] == ".nbdebug-stage-tree {}"
    assert state["stages"] == stages()


def test_without_a_bundle_the_tree_is_plain_and_says_why_once(unbundled: None) -> None:
    bundle._warn.cache_clear()
    with pytest.warns(UserWarning, match=r"Node\.js was missing") as warned:
        trees = [stage_tree(stages()), stage_tree(stages())]
    assert {type(tree) for tree in trees} == {PlainStageTree}
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_asking_for_a_missing_bundle_says_what_to_do(unbundled: None) -> None:
    with pytest.raises(FileNotFoundError, match=r"stage_tree.*Node\.js 20"):
        StageTree()


def test_both_trees_have_the_same_interface(tree: StageTree | PlainStageTree) -> None:
    seen: list[str] = []
    tree.observe(lambda change: seen.append(change["new"]), "selected")
    assert tree.selected == "data"
    tree.selected = "nan-inputs"
    tree.stages = stages("found", 2)
    assert seen == ["nan-inputs"]
    assert tree.stages[0]["steps"][0]["count"] == 2


def test_both_trees_refuse_an_unknown_state(tree: StageTree | PlainStageTree) -> None:
    with pytest.raises(traitlets.TraitError, match=r"'nan-inputs' has the state 'fine'; expected one of"):
        tree.stages = stages("fine")
    assert tree.stages == stages()


def test_an_empty_tree_needs_no_arguments(tree: StageTree | PlainStageTree) -> None:
    empty = type(tree)()
    assert (empty.stages, empty.selected) == ([], "")


def test_plain_buttons_show_icon_title_and_state_as_text() -> None:
    tree = PlainStageTree(stages("found", 2))
    assert [button.description for button in tree.children] == [
        "✓ The data (clean)",
        f"▲ {INJECTED} (2 found)",
        "○ The model (not run)",
    ]


def test_a_plain_button_selects_its_row() -> None:
    tree = PlainStageTree(stages())
    tree.children[1].click()
    assert tree.selected == "nan-inputs"
    assert [button.button_style for button in tree.children] == ["", "primary", ""]


def test_plain_buttons_are_updated_in_place() -> None:
    tree = PlainStageTree(stages())
    before = tree.children
    tree.stages = stages("running")
    assert tree.children is before
    tree.stages = stages()[:1]
    assert tree.children == before[:2]


def test_icons_and_words_are_those_of_the_front_end() -> None:
    source = (ROOT / "js/src/stages.ts").read_text("utf-8")

    def table(name: str) -> dict[str, str]:
        body = source.split(f"const {name}: Record<State, string> = {{")[1].split("}")[0]
        return dict(re.findall(r'"?([\w-]+)"?: "([^"]+)"', body))

    assert table("ICONS") == ICONS
    assert table("WORDS") == WORDS


def test_importing_the_widgets_package_imports_no_widgets() -> None:
    heavy = {"IPython", "anywidget", "ipywidgets"}
    code = f"import sys, nbdebug.widgets; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
