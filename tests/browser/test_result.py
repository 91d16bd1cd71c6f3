"""What the wizard says after Run everything, measured in the page: the largest text is the most likely cause.

A CNN with `softmax(dim=0)` on the digits, in JupyterLab and Notebook 7, with the tree's own front end and without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import step_of
from tests.browser.jupyter import EXTENSION, Notebook, Server
from tests.browser.pages import complain, new_page

SETUP = """
import torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(labels))
loader = DataLoader(data, 64, shuffle=True)
class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16, 10)
    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return torch.softmax(self.head(x.flatten(1)), dim=0)
model = CNN()
"""
WIZARD = "wizard = nbdebug.wizard(model, loader)\nwizard"
PLAIN = """
import pathlib, warnings
from nbdebug.widgets import bundle
bundle.STATIC = pathlib.Path("not-built")
warnings.simplefilter("ignore")
wizard = nbdebug.wizard(model, loader)
wizard
"""
CELLS = [SETUP, WIZARD, PLAIN]
CAUSE = "softmax-over-wrong-dim"
MENDED = "return torch.softmax(self.head(x.flatten(1)), dim=1)"
VERDICT = re.compile("no (illness|problems?) found|nothing (was )?found|all clear", re.IGNORECASE)
SENTENCE = re.compile(r"^The output of model \(CNN\) sums to 1 over dim 0")
pytestmark = pytest.mark.timeout(400)

# Every piece of text that can be seen in the wizard, with the size of its font, the largest first.
TEXTS = """root => {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = new Map();
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || node.closest("style, select") || !node.checkVisibility()) continue;
    texts.set(node, parseFloat(getComputedStyle(node).fontSize));
  }
  return [...texts].map(([node, size]) => ({ text: node.textContent.trim(), size, tag: node.tagName }))
    .sort((a, b) => b.size - a.size);
}"""


@pytest.fixture(scope="module", params=["lab", "notebook"])
def notebook(request: pytest.FixtureRequest, server: Server, browser: Browser, shots: Path) -> Iterator[Notebook]:
    with new_page(server, browser, request.param, shots) as opened:
        opened.open(f"result-{opened.front}.ipynb", CELLS)
        opened.run_cell(0)
        yield opened


@pytest.fixture(autouse=True)
def quiet(notebook: Notebook) -> Iterator[None]:
    yield
    complain(notebook)


def run_everything(notebook: Notebook, cell: int) -> Locator:
    """Open a wizard, click Run everything, and return the wizard when it is done."""
    notebook.run_cell(cell)
    wizard = notebook.output(cell).locator(".nbdebug-wizard")
    wizard.get_by_role("button", name="Run diagnosis").locator("visible=true").first.click()
    expect(wizard.get_by_text("done", exact=True)).to_be_visible(timeout=150_000)
    return wizard


def texts(wizard: Locator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = wizard.evaluate(TEXTS)
    return found


def sees_the_cause(wizard: Locator) -> None:
    """The most likely cause is the one largest text; its evidence, its fix and the fix's button can be seen."""
    expect(wizard.get_by_role("heading", name=SENTENCE)).to_be_visible()
    expect(wizard.get_by_text(registry.load().checks[CAUSE].title).first).to_be_visible()
    sizes = texts(wizard)
    headline = [text for text in sizes if text["size"] == sizes[0]["size"]]
    assert {text["tag"] for text in headline} == {"H1"} and sizes[len(headline)]["size"] < headline[0]["size"]
    expect(wizard.locator("article code", has_text=CAUSE).first).to_be_visible()
    expect(wizard.locator(".nbdebug-picture .bqplot").locator("visible=true").first).to_be_visible()
    expect(wizard.locator("pre code", has_text=MENDED).first).to_be_visible()
    expect(wizard.get_by_role("button", name="Try the fix on a copy").first).to_be_visible()
    expect(wizard.get_by_text(re.compile("^Explains 1 other finding"))).to_be_visible()
    expect(wizard.get_by_text("Not applicable, and why")).to_be_visible()
    assert not [text for text in texts(wizard) if VERDICT.search(text["text"])]


def keep(notebook: Notebook, wizard: Locator, name: str, width: int) -> None:
    """Keep a picture of the wizard in a window of this width."""
    notebook.page.set_viewport_size({"width": width, "height": 1400})
    wizard.evaluate("node => node.scrollIntoView({ block: 'start' })")
    notebook.screenshot(f"result-{name}-{notebook.front}-{width}")


def test_the_largest_text_is_the_likeliest_cause(notebook: Notebook) -> None:
    wizard = run_everything(notebook, 1)
    sees_the_cause(wizard)
    expect(wizard.locator("[aria-current=step]:visible")).to_have_count(0)
    expect(wizard.get_by_role("button", name="Run this step")).to_be_hidden()


def test_no_step_has_a_headline_that_reads_like_a_verdict(notebook: Notebook) -> None:
    """The largest text of a step is its question; its counts are small; the result is one line and one click away."""
    wizard = notebook.output(1).locator(".nbdebug-wizard")
    rows = wizard.get_by_role("navigation", name="Stages and steps").locator("ul ul button")
    with_checks = {step.label for _, step in step_of(registry.load())}
    for index in range(rows.count()):
        row = rows.nth(index)
        title = row.locator(".nbdebug-title").inner_text()
        row.click()
        expect(wizard.get_by_role("heading", name=f"{title}: ").first).to_be_visible()
        if title in with_checks:
            expect(wizard.get_by_text(re.compile("^This step: "))).to_be_visible()
        shown = texts(wizard)
        assert shown[0]["text"].startswith(f"{title}: ") and shown[0]["size"] > shown[1]["size"]
        assert not [text for text in shown if VERDICT.search(text["text"])]
        assert next((text["size"] for text in shown if text["text"].startswith("This step: ")), 0) <= 14
        expect(wizard.get_by_text(re.compile(f"The most likely cause is {CAUSE}"))).to_be_visible()
    keep(notebook, wizard, "step", 1400)
    wizard.get_by_role("button", name="Show result").click()
    sees_the_cause(wizard)


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_narrow_the_answer_comes_before_the_tree(notebook: Notebook, theme: str) -> None:
    command = f"() => window.jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {theme}' }})"
    notebook.page.evaluate(command)
    wizard = notebook.output(1).locator(".nbdebug-wizard")
    sees_the_cause(wizard)
    keep(notebook, wizard, theme.lower(), 1400)
    wide = positions(wizard)
    assert wide["tree"]["y"] < wide["answer"]["y"]
    if notebook.front == "lab":
        notebook.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    keep(notebook, wizard, theme.lower(), 600)
    sees_the_cause(wizard)
    narrow = positions(wizard)
    assert narrow["answer"]["y"] < narrow["tree"]["y"]
    assert wizard.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
    notebook.page.set_viewport_size({"width": 1200, "height": 900})


def positions(wizard: Locator) -> dict[str, Any]:
    """Return where the tree and the headline stand."""
    tree = wizard.get_by_role("navigation", name="Stages and steps")
    found = {"tree": tree.bounding_box(), "answer": wizard.locator("h1").bounding_box()}
    assert all(found.values())
    return found


def test_the_tabs_are_in_the_same_cell(notebook: Notebook) -> None:
    """Each tab is made when it is opened, and the verdict is one click away."""
    notebook.scroll_to(1)
    wizard = notebook.output(1).locator(".nbdebug-wizard")
    inside = {"Batch": ".nbd-card", "Activations": ".nbd-strip", "Gradients": "tbody tr", "Layers": "tbody tr"}
    for tab, found in inside.items():
        wizard.get_by_role("button", name=tab, exact=True).click()
        expect(wizard.locator(f".nbdebug-explored {found}").first).to_be_visible(timeout=60_000)
        expect(wizard.get_by_role("button", name=tab, exact=True)).to_have_attribute("aria-pressed", "true")
        expect(wizard.locator("h1")).to_be_hidden()
    wizard.get_by_role("button", name="Training", exact=True).click()
    expect(wizard.get_by_role("img", name="Loss of a short training on a copy")).to_be_visible()
    keep(notebook, wizard, "tab", 1100)
    wizard.get_by_role("button", name="Verdict", exact=True).click()
    sees_the_cause(wizard)


def test_the_fix_is_copied_and_put_into_a_cell(notebook: Notebook) -> None:
    """The patch goes to the clipboard, and with the extension the code of the fix into a new cell under the wizard."""
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    wizard = notebook.output(1).locator(".nbdebug-wizard")
    wizard.get_by_role("button", name="Copy fix").first.click()
    expect(wizard.locator("button[data-said='Copied']")).to_be_visible()
    copied = notebook.page.evaluate("() => navigator.clipboard.readText()")
    assert re.search(rf"^\+ +{re.escape(MENDED)}$", copied, flags=re.MULTILINE)  # the patch of the user's own line
    insert = wizard.get_by_role("button", name="Insert as cell").first
    if not EXTENSION.is_dir():
        expect(insert).to_be_hidden()
        return
    insert.click()
    expect(notebook.cell(2)).to_contain_text("scores.log_softmax(dim=1)")
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('notebook:delete-cell')")
    expect(notebook.cell(2)).not_to_contain_text("scores.log_softmax(dim=1)")


def test_plain_widgets_say_the_same(notebook: Notebook) -> None:
    """Without the tree's own front end the pane is the same, and so is the way back from a step."""
    wizard = run_everything(notebook, 2)
    expect(wizard.get_by_role("navigation")).to_have_count(0)
    sees_the_cause(wizard)
    wizard.get_by_role("button", name=re.compile(r"^\W*Loading\b")).first.click()
    expect(wizard.get_by_text(re.compile(r"^This step: \d+ checks? passed"))).to_be_visible()
    assert not [text for text in texts(wizard) if VERDICT.search(text["text"])]
    wizard.get_by_role("button", name="Show result").click()
    sees_the_cause(wizard)


def test_what_stays_in_the_notebook_leads_with_the_same_cause(notebook: Notebook) -> None:
    notebook.reopen(f"result-{notebook.front}.ipynb", trusted=True)
    still = notebook.output(1).locator(".nbdebug-static")
    expect(still.get_by_role("heading", name=registry.load().checks[CAUSE].title)).to_be_visible()
    largest, second = texts(still)[:2]
    assert largest["tag"] == "H1" and second["size"] < largest["size"]
    assert not [text for text in texts(still) if VERDICT.search(text["text"])]
    notebook.errors.clear()  # the widget manager itself writes that the models of the widgets are gone
