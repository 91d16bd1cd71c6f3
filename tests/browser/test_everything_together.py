"""One notebook that uses everything at once: each view looks as if it were alone, and curves move while a cell runs.

The other tests open one view at a time; what views do to each other is seen only here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.jupyter import Notebook, Server, Theme
from tests.browser.looks import BROKEN, EMPTY, LOOK, UNSCOPED, boxes, brightness, style, themed
from tests.browser.pages import complain, new_page

SETUP = """
import pathlib, torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels))
loader = DataLoader(data, 64, shuffle=True)
loss_fn = nn.CrossEntropyLoss()
def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.Tanh(), nn.Linear(32, 10))
model, watched = make(), make()
optimizer, steps = (torch.optim.Adam(m.parameters(), 1e-3) for m in (model, watched))
"""
WIZARD = "nbdebug.wizard(model, loader, loss_fn, optimizer)"
BATCH = "nbdebug.show_batch(loader, model)"
ACTIVATIONS = "nbdebug.show_activations(model, loader)"
GRADIENTS = "nbdebug.show_gradients(model, loader, loss_fn, optimizer)"
LAYERS = "nbdebug.show_layers(model, loader, loss_fn)"
# Trains until the test has seen enough, and for ever as far as the curves are concerned.
TRAIN = """
with nbdebug.watch(watched, steps) as live:
    while not pathlib.Path("{enough}").exists() and live.step < 200_000:
        for x, y in loader:
            steps.zero_grad()
            loss_fn(watched(x), y).backward()
            steps.step()
print("trained")
"""
# What progress does in a cell that shows nothing else.
REMOVED = """
from nbdebug.report.cell_output import CellOutput
bar = CellOutput()
bar.show({"text/html": "<p>nearly there</p>", "text/plain": "nearly there"})
bar.remove()
"""
DIAGNOSE = "nbdebug.diagnose(model, loader, loss_fn, optimizer, quick=True)"
NAMES = ("wizard", "batch", "activations", "gradients", "layers", "curve", "report")
CELL = {name: place for place, name in enumerate(NAMES, start=1)}
PATIENCE = 240_000  # milliseconds; other tests share the machine
WIDE, NARROW = {"width": 1300, "height": 1100}, {"width": 620, "height": 1100}
STDERR = "[data-mime-type='application/vnd.jupyter.stderr']"
pytestmark = pytest.mark.timeout(900)


@dataclass
class Run:
    """What was seen while the cells ran."""

    looks: dict[str, list[str]] = field(default_factory=dict)  # by view: every element, when nothing came after it
    steps: list[int] = field(default_factory=list)


@pytest.fixture(scope="module", params=["lab", "notebook"])
def notebook(request: pytest.FixtureRequest, server: Server, browser: Browser, shots: Path) -> Iterator[Notebook]:
    """One page with everything in it: each view is looked at when it is new, and again by the tests."""
    with new_page(server, browser, request.param, shots) as opened:
        opened.page.set_viewport_size(WIDE)
        train = TRAIN.format(enough=f"enough-{opened.front}")
        cells = [SETUP, WIZARD, BATCH, ACTIVATIONS, GRADIENTS, LAYERS, train, DIAGNOSE, REMOVED]
        opened.open(f"everything-{opened.front}.ipynb", cells)
        opened.run_cell(0)
        yield opened


@pytest.fixture(autouse=True)
def quiet(notebook: Notebook) -> Iterator[None]:
    yield
    complain(notebook)


@pytest.fixture(scope="module")
def run(notebook: Notebook) -> Run:
    """Run every cell, and everything in the wizard; keep how each view looked when nothing came after it."""
    found = Run()
    for name in NAMES:
        if name == "curve":
            found.steps = train(notebook)
        else:
            notebook.run_cell(CELL[name])
        view = shown(notebook, name)
        expect(view).to_be_visible(timeout=PATIENCE)
        found.looks[name] = view.evaluate(LOOK)
    notebook.scroll_to(CELL["wizard"])
    everything = (
        notebook.output(CELL["wizard"]).get_by_role("button", name="Run diagnosis").locator("visible=true").first
    )
    everything.click()
    expect(everything).to_be_disabled(timeout=PATIENCE)
    expect(everything).to_be_enabled(timeout=PATIENCE)
    return found


def train(notebook: Notebook) -> list[int]:
    """Run the training; give the steps that its view showed, one after another, before the cell could end."""
    notebook.begin_cell(CELL["curve"])
    heading = notebook.output(CELL["curve"]).locator(".nbdebug-view h3")
    seen = []
    try:
        expect(heading).to_contain_text("recording", timeout=PATIENCE)
        for _ in range(4):
            text = heading.inner_text()
            assert "recording" in text
            seen.append(int(re.sub(r"\D", "", text.split("step ")[1].split(" ")[0])))
            expect(heading).not_to_have_text(text, timeout=PATIENCE)
        expect(notebook.output(CELL["curve"])).not_to_contain_text("trained")
    finally:
        (notebook.server.home / "notebooks" / f"enough-{notebook.front}").touch()
    notebook.wait_for_idle(PATIENCE / 1000)
    return seen


def shown(notebook: Notebook, name: str) -> Locator:
    """Return a view, on the page."""
    notebook.scroll_to(CELL[name])
    root = {"wizard": ".nbdebug-stage-tree", "report": ".nbdebug-report"}.get(name, ".nbdebug-view")
    return notebook.output(CELL[name]).locator(root).first


def test_the_curves_move_while_the_cell_runs(notebook: Notebook, run: Run) -> None:
    """The view comes by itself, under its cell, and shows more and more steps before the training ends."""
    assert len(run.steps) == 4 and run.steps == sorted(set(run.steps))
    curve = notebook.output(CELL["curve"]).locator(".nbdebug-view")
    notebook.scroll_to(CELL["curve"])
    expect(curve).to_have_count(1)
    expect(curve.locator("h3")).to_contain_text("idle", timeout=PATIENCE)


def test_the_wizard_among_the_others(notebook: Notebook, run: Run) -> None:
    """Its map is no bulleted list: the stages stand side by side, as wide as the cell, a small dot for each step."""
    tree = shown(notebook, "wizard")
    assert style(tree.locator("ul"), "listStyleType") == "none" and style(tree.locator("ul"), "display") == "grid"
    (around,), stages, dots = boxes(tree), boxes(tree.locator(":scope > ul > li")), boxes(tree.locator("ul ul button"))
    assert len(stages) == 7 and len({round(stage["top"]) for stage in stages}) == 1
    assert sum(stage["width"] for stage in stages) > 0.95 * around["width"]
    assert len(dots) > 30 and all(dot["width"] == dot["height"] == 24 for dot in dots)
    wizard = notebook.output(CELL["wizard"])
    expect(wizard.locator("h1").first).to_contain_text("Your training learns: accuracy", timeout=PATIENCE)
    expect(wizard).to_contain_text(re.compile(r"No problems found: \d+ checks passed"), timeout=PATIENCE)


def test_every_view_looks_as_if_it_were_alone(notebook: Notebook, run: Run) -> None:
    """What was shown first is drawn in the end as it was in the beginning."""
    for name in ("batch", "activations", "gradients", "layers", "report"):
        now, before = shown(notebook, name).evaluate(LOOK), run.looks[name]
        assert len(now) == len(before), (name, [x for x in now if x not in before][:5])
        changed = [f"{old}\n  now {new}" for old, new in zip(before, now, strict=True) if old != new]
        assert not changed, f"{name}: {len(changed)} of {len(now)} elements:\n" + "\n".join(changed[:5])
    assert notebook.page.evaluate(UNSCOPED) == []


def test_a_batch_is_a_grid_of_small_cards_under_bars_of_its_classes(notebook: Notebook, run: Run) -> None:
    view = shown(notebook, "batch")
    cards = boxes(view.locator(".nbd-card"))
    assert len({round(card["left"]) for card in cards}) >= 6 and max(card["width"] for card in cards) < 200
    classes = view.locator(".nbd-classes")
    assert style(classes, "display") == "flex" and style(classes, "listStyleType") == "none"
    columns = boxes(classes.locator("li"))
    assert len(columns) == 10 and max(column["width"] for column in columns) < 60
    assert len({round(column["bottom"]) for column in columns}) == 1  # side by side


def test_tables_have_their_strips_bars_and_facts(notebook: Notebook, run: Run) -> None:
    activations = shown(notebook, "activations")
    strips = boxes(activations.locator(".nbd-strip"))
    assert len(strips) >= 5 and all(strip["height"] == 15 and strip["width"] > 120 for strip in strips)
    assert style(activations.locator(".nbd-axis"), "display") == "flex"
    gradients = shown(notebook, "gradients")
    assert style(gradients.locator(".nbd-meter"), "display") == "flex"
    assert style(gradients.locator(".nbd-shade"), "position") == "absolute"
    assert all(row["height"] < 40 for row in boxes(gradients.locator("tbody tr")))
    layers = shown(notebook, "layers")
    assert all(row["height"] < 40 for row in boxes(layers.locator("tbody tr")))
    assert style(layers.locator("tbody button"), "borderTopWidth") == "0px"
    layers.get_by_role("button", name="Graph", exact=True).click()
    nodes = boxes(layers.locator(".nbd-node"))
    assert len(nodes) == 6 and all(node["height"] == 30 for node in nodes)
    assert style(layers.locator(".nbd-node"), "position") == "absolute"
    layers.get_by_role("button", name="Table", exact=True).click()


def test_the_curves_have_their_colors_and_no_bullets(notebook: Notebook, run: Run) -> None:
    curve = shown(notebook, "curve")
    assert boxes(curve.locator(".nbd-legend i"))[0]["height"] == 3
    assert style(curve.locator(".nbd-said"), "listStyleType") == "none"
    plot, around = boxes(curve.locator(".nbd-plot"))[0], boxes(curve)[0]
    assert plot["width"] > 0.9 * around["width"]


def test_no_output_is_empty_and_none_is_on_standard_error(notebook: Notebook, run: Run) -> None:
    """Progress leaves nothing behind, neither on the page nor in the saved notebook."""
    for name in NAMES:
        shown(notebook, name)
        expect(notebook.output(CELL[name]).locator(STDERR)).to_have_count(0)
        assert notebook.page.evaluate(EMPTY) == []
    removed = len(NAMES) + 1
    notebook.run_cell(removed)
    notebook.scroll_to(removed)
    expect(notebook.cell(removed)).to_contain_text("nearly there</p>")  # the code alone
    assert all(box["height"] == 0 for box in boxes(notebook.output(removed).locator(".jp-OutputArea-child")))
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    saved = nbformat.read(notebook.server.home / f"notebooks/everything-{notebook.front}.ipynb", as_version=4)
    assert not [output for cell in saved.cells for output in cell.outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"], ids=["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_everything_fits_and_can_be_read(
    notebook: Notebook, run: Run, theme: Theme, size: dict[str, int], request: pytest.FixtureRequest
) -> None:
    """In both themes, on a wide and on a narrow page; a picture of each view is kept, to be looked at.

    No word of the map's titles is broken into two lines.
    """
    themed(notebook, theme)
    notebook.page.set_viewport_size(size)  # type: ignore[arg-type]
    shade = theme.split()[-1].lower()
    for name in NAMES:
        view = shown(notebook, name)
        expect(view).to_be_visible()
        assert view.evaluate("node => node.scrollWidth <= node.clientWidth + 1"), name
        assert name != "wizard" or view.evaluate(BROKEN) == []
        ink, paper = brightness(style(view, "color")), brightness(style(view, "backgroundColor"))
        assert (paper < 80 < 150 < ink) if shade == "dark" else (ink < 100 < 200 < paper), name
        notebook.screenshot(f"everything-{name}-{notebook.front}-{shade}-{'wide' if size is WIDE else 'narrow'}")
