"""The tree of stages in JupyterLab and Notebook 7: drawn, clicked, updated, and safe."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from nbdebug.widgets import bundle
from tests.browser.jupyter import Notebook, Theme

SHOW = """
from nbdebug.widgets.stage_tree import stage_tree

def step(id, title, state, count=0):
    return {"id": id, "title": title, "state": state, "count": count}

def stages(running="running"):
    return [
        {"id": "data", "title": "The data", "state": "found", "steps": [
            step("nan-inputs", "NaN in the inputs", "clean"),
            step("leak", "<img src=x onerror='window.hacked = 1'>", "found", 2),
            step("imbalance", "Unbalanced classes", "skipped")]},
        {"id": "model", "title": "The model", "state": running, "steps": [
            step("dead-units", "Dead units", running),
            step("batch-mixing", "Batch mixing", "crashed"),
            step("init", "Initial loss", "stale")]},
        {"id": "training", "title": "The training", "state": "not-run", "steps": []},
    ]

tree = stage_tree(stages(), selected="data")
tree
"""
ASK = "print('selected:', tree.selected)"

pytestmark = pytest.mark.skipif(not bundle.is_built("stage_tree"), reason="the front end was not built")


@pytest.fixture
def tree(notebook: Notebook) -> Locator:
    notebook.open(f"tree-{notebook.front}.ipynb", [SHOW, ASK])
    notebook.run_cell(0)
    tree = notebook.page.get_by_role("navigation", name="Stages and steps")
    expect(tree).to_be_visible()
    return tree


def test_a_click_reaches_the_kernel(notebook: Notebook, tree: Locator) -> None:
    step = tree.get_by_role("button", name="Dead units")
    step.click()
    expect(step).to_have_attribute("aria-current", "step")
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("selected: dead-units")


def test_the_keyboard_reaches_every_row(notebook: Notebook, tree: Locator) -> None:
    tree.get_by_role("button", name="The data").focus()
    for _ in range(2):
        notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("Enter")
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("selected: leak")


def test_an_injected_title_stays_text(notebook: Notebook, tree: Locator) -> None:
    expect(tree.get_by_role("button", name="<img src=x")).to_contain_text("2 found")
    assert tree.locator("img").count() == 0
    assert notebook.page.evaluate("() => 'hacked' in window") is False


def test_an_update_keeps_focus(notebook: Notebook, tree: Locator) -> None:
    step = tree.get_by_role("button", name="Dead units")
    step.focus()
    notebook.execute("tree.stages = stages('clean')")
    expect(step).to_contain_text("clean")
    expect(step).to_be_focused()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_text_has_contrast(notebook: Notebook, theme: Theme) -> None:
    notebook.server.set_theme(theme)
    notebook.open(f"theme-{notebook.front}.ipynb", [SHOW])
    notebook.run_all()
    tree = notebook.page.get_by_role("navigation", name="Stages and steps")
    tree.get_by_role("button", name="Dead units").click()
    notebook.screenshot(f"stage-tree-{notebook.front}-{theme.split()[-1].lower()}")
    worst = tree.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


# The least contrast (WCAG) of any text of the tree with the first painted background behind it.
CONTRAST = """tree => {
  const rgb = color => color.match(/[\\d.]+/g).map(Number);
  const light = color => rgb(color).slice(0, 3)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = node => {
    const color = getComputedStyle(node).backgroundColor;
    return (rgb(color)[3] ?? 1) > 0.5 ? color : ground(node.parentElement);
  };
  return [...tree.querySelectorAll('span')].map(span => {
    const [text, back] = [getComputedStyle(span).color, ground(span)];
    const [low, high] = [light(text), light(back)].sort((a, b) => a - b);
    return { text: span.textContent, color: text, back, ratio: (high + 0.05) / (low + 0.05) };
  }).sort((a, b) => a.ratio - b.ratio)[0];
}"""
