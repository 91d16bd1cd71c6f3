"""The wizard in JupyterLab and Notebook 7: its stages, a finding, a fix, Cancel, a report, and life after a reload.

All tests of a front end share one page and one kernel; each has a cell with a wizard of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, TimeoutError, expect

from tests.browser.jupyter import Notebook, Server
from tests.browser.pages import complain, new_page, step_named

SETUP = """
import time, torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
loader = DataLoader(data, 64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(dim=1))
names = ["<img src=x onerror='window.hacked = 1'>"] + [str(n) for n in range(1, 10)]
before = [p.detach().clone() for p in model.parameters()]
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.02)
        return x
"""
SAME = "print('unchanged:', all(torch.equal(a, b) for a, b in zip(before, model.parameters())))"
PAUSED = "time.sleep(4); print('slept')"
WIZARD = "wizard = nbdebug.wizard(model, loader, nn.CrossEntropyLoss(), class_names=names)\nwizard"
SLOW = "wizard = nbdebug.wizard(nn.Sequential(nn.Linear(64, 10), Slow()), loader, nn.CrossEntropyLoss())\nwizard"
CELLS = [SETUP, SAME, PAUSED, WIZARD, WIZARD, WIZARD, SLOW, WIZARD, WIZARD]
LOSS, WEIGHTS, ONE_BATCH = step_named("loss-reads-outputs"), step_named("first-weights"), step_named("memorize")
FIRST = step_named("readable")
LAST = len(CELLS) - 1
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module", params=["lab", "notebook"])
def notebook(request: pytest.FixtureRequest, server: Server, browser: Browser, shots: Path) -> Iterator[Notebook]:
    with new_page(server, browser, request.param, shots) as opened:
        opened.open(f"wizard-{opened.front}.ipynb", CELLS)
        opened.run_cell(0)
        yield opened


@pytest.fixture(autouse=True)
def quiet(notebook: Notebook) -> Iterator[None]:
    yield
    complain(notebook)


def wizard_in(notebook: Notebook, cell: int) -> Locator:
    """Run the cell of a wizard and give what it shows; the one before is taken down."""
    notebook.execute("'wizard' in globals() and wizard.close()")
    notebook.run_cell(cell)
    output = notebook.output(cell)
    expect(shown(output, "Run diagnosis")).to_be_visible()
    return output


def shown(wizard: Locator, name: str | re.Pattern[str]) -> Locator:
    """Return the button of this name that can be seen: the one that runs everything stands on two screens."""
    return wizard.get_by_role("button", name=name).locator("visible=true").first


def dot(wizard: Locator, name: str | re.Pattern[str]) -> Locator:
    """Return the dot of a step in the map."""
    return wizard.get_by_role("navigation", name="Stages and steps").get_by_role("button", name=name).first


def reloaded(notebook: Notebook) -> Locator:
    """Save the notebook and load its page again until the wizard is back, three times at most.

    ipywidgets gives a kernel four seconds to send its models, and on a busy machine misses some or all of them; a
    person then loads the page once more.
    """
    wizard = notebook.output(LAST)
    for patience in (20_000, 40_000, 60_000):
        notebook.reload()
        notebook.wait_for_idle()
        notebook.scroll_to(LAST)
        try:
            wizard.get_by_role("button", name="Show result").wait_for(timeout=patience)
        except TimeoutError:
            continue
        return wizard
    raise AssertionError(f"The wizard did not come back: {wizard.inner_text()[:300]}")


def keep(notebook: Notebook, wizard: Locator, name: str) -> None:
    """Keep a picture of the page with the wizard at its top."""
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})
    wizard.locator(".nbdebug-wizard").evaluate("node => node.scrollIntoView({ block: 'start' })")
    notebook.screenshot(name)
    notebook.page.set_viewport_size({"width": 1200, "height": 900})


def find_softmax(wizard: Locator) -> None:
    """Run the step that finds the softmax."""
    dot(wizard, LOSS).click()
    shown(wizard, "Run this step").click()
    expect(wizard).to_contain_text("softmax-before-cross-entropy", timeout=60_000)


def same_model(notebook: Notebook) -> None:
    """See that the user's model was not touched, and that no name of a class has acted."""
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("unchanged: True")
    assert notebook.page.evaluate("() => 'hacked' in window") is False


def test_a_step_finds_the_softmax_and_leaves_the_model(notebook: Notebook) -> None:
    """Choosing the loss's step and running it shows the finding with its place; the model is the same."""
    wizard = wizard_in(notebook, 3)
    find_softmax(wizard)
    expect(wizard.get_by_text("done", exact=True)).to_be_visible(timeout=60_000)
    keep(notebook, wizard, f"wizard-{notebook.front}-light")
    same_model(notebook)


def test_begins_with_the_symptom_and_keeps_what_a_person_says(notebook: Notebook) -> None:
    """Before any click the batch is there; the symptom orders the plan and says why; a step can be skipped."""
    wizard = wizard_in(notebook, 4)
    for understood in ("4,810 parameters", "64×64", "10 classes", "CrossEntropyLoss", "Adam, lr 0.0003"):
        expect(wizard).to_contain_text(understood)
    expect(wizard.locator(".nbdebug-batch :is(figure, tr)")).not_to_have_count(0)
    assert wizard.locator(".nbdebug-symptoms button").count() == 6
    notebook.screenshot(f"wizard-first-{notebook.front}")
    wizard.get_by_role("button", name="Loss is NaN").click()
    expect(wizard.get_by_role("button", name="Loss is NaN")).to_have_attribute("aria-pressed", "true")
    expect(wizard).to_contain_text("A NaN in the inputs propagates through every layer.")
    dot(wizard, FIRST).click()
    chosen = wizard.get_by_role("navigation", name="Stages and steps").locator("[aria-current=step]")
    expect(chosen).to_be_visible()
    first = chosen.inner_text()
    wizard.get_by_role("button", name="Skip").click()
    expect(chosen).not_to_have_text(first)
    expect(wizard).to_contain_text("Next:")
    wizard.get_by_role("button", name="← Back").click()
    expect(chosen).to_have_text(re.compile(first.splitlines()[1] if len(first.splitlines()) > 1 else first))
    notebook.screenshot(f"wizard-symptom-{notebook.front}")


def test_by_keyboard_alone(notebook: Notebook) -> None:
    """Arrow keys choose a step, Tab reaches its button, Enter runs it."""
    wizard = wizard_in(notebook, 5)
    dot(wizard, LOSS).focus()
    notebook.page.keyboard.press("ArrowUp")
    notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("Enter")
    expect(wizard.get_by_role("heading", name=LOSS)).to_be_visible()
    for _ in range(20):
        notebook.page.keyboard.press("Tab")
        if notebook.page.evaluate("() => document.activeElement.textContent.trim()") == "Run this step":
            break
    notebook.page.keyboard.press("Enter")
    expect(wizard).to_contain_text("softmax-before-cross-entropy", timeout=60_000)


def test_an_overfit_run_can_be_cancelled_in_the_middle(notebook: Notebook) -> None:
    """The button answers at once; Cancel ends the experiment before its own end, and the buttons are back."""
    wizard = wizard_in(notebook, 6)
    dot(wizard, ONE_BATCH).click()
    shown(wizard, "Run this step").click()
    expect(wizard).to_contain_text("overfitting one batch", timeout=60_000)
    wizard.get_by_role("button", name="Stop").click()
    expect(shown(wizard, "Run diagnosis")).to_be_enabled(timeout=30_000)
    expect(wizard).to_contain_text("canceled by the user")


def test_a_click_during_a_cell_waits(notebook: Notebook) -> None:
    """A click while a cell runs is neither lost nor does it disturb the cell, and it is seen to wait."""
    wizard = wizard_in(notebook, 7)
    dot(wizard, FIRST).click()
    expect(shown(wizard, "Run this step")).to_be_visible()
    notebook.page.evaluate(
        """() => {
          window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2;
          window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
    notebook.page.wait_for_function(f"() => {kernel}.status === 'busy'")
    shown(wizard, "Run this step").click()
    waiting = wizard.locator("button[data-waits]").or_(wizard.get_by_text("waits for the running cell"))
    expect(waiting.first).to_be_visible(timeout=3500)
    keep(notebook, wizard, f"wizard-waits-{notebook.front}")
    expect(notebook.output(2)).to_contain_text("slept", timeout=30_000)
    expect(wizard).to_contain_text("done", timeout=60_000)
    expect(wizard.locator("button[aria-busy]")).to_have_count(0)


def test_every_stage_in_the_dark_then_a_fix_and_a_report(notebook: Notebook) -> None:
    """Each stage runs by itself; a fix is tried on a copy; the report has its verdict; the theme's colors hold."""
    notebook.page.evaluate(
        "() => window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
    )
    wizard = wizard_in(notebook, LAST)
    tree = wizard.get_by_role("navigation", name="Stages and steps")
    for name in ("data", "run", "start", "learn"):
        stage = tree.locator(f":scope > ul > li > button[data-id={name}]")
        stage.click()
        shown(wizard, "Run the rest of this stage").click()
        expect(stage.locator(".nbdebug-state")).not_to_have_text(re.compile("not run|running"), timeout=150_000)
        expect(shown(wizard, "Run diagnosis")).to_be_enabled(timeout=30_000)
    expect(tree.locator("[data-state=crashed]")).to_have_count(0)
    dot(wizard, LOSS).click()
    attempt = wizard.get_by_role("button", name="Try the fix on a copy").first
    attempt.click()
    expect(wizard.get_by_role("button", name="Try the fix on a copy").first).to_be_disabled()
    expect(wizard.get_by_text("verified: ").first).to_be_visible(timeout=120_000)
    paper = tree.evaluate("node => getComputedStyle(node).backgroundColor")
    assert max(int(part) for part in paper.removeprefix("rgb(").rstrip(")").split(", ")) < 80
    keep(notebook, wizard, f"wizard-{notebook.front}-dark")
    wizard.get_by_role("button", name="Export report").click()
    expect(wizard).to_contain_text("written: report.html")
    assert "verified" in (notebook.server.home / "notebooks" / "report.html").read_text()
    same_model(notebook)


def test_reloaded_it_lives_on_and_reopened_its_findings_stay(notebook: Notebook) -> None:
    """The page is loaded again; then the kernel ends, and the notebook is opened trusted, and as somebody else's."""
    wizard = reloaded(notebook)
    dot(wizard, WEIGHTS).click()
    expect(wizard.get_by_role("heading", name=WEIGHTS)).to_be_visible()
    expect(wizard.locator(".nbdebug-static")).to_be_hidden()
    for trusted in (True, False):
        notebook.reopen(f"wizard-{notebook.front}.ipynb", trusted=trusted)
        notebook.scroll_to(LAST)
        expect(notebook.output(LAST).locator(".nbdebug-static")).to_contain_text("softmax-before-cross-entropy")
    notebook.screenshot(f"wizard-reopened-{notebook.front}")
    notebook.errors.clear()  # the widget manager itself writes that the models of the widgets are gone
