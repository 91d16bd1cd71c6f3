"""The wizard in JupyterLab and Notebook 7: a step, a finding, Cancel, and a report."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.jupyter import Notebook, Theme

SHOW = """
import torch, nbdebug
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
wizard = nbdebug.wizard(model, loader, nn.CrossEntropyLoss(), class_names=names)
wizard
"""
SAME = "print('unchanged:', all(torch.equal(a, b) for a, b in zip(before, model.parameters())))"
PAUSED = "import time; time.sleep(3); print('slept')"


@pytest.fixture
def wizard(notebook: Notebook) -> Locator:
    notebook.open(f"wizard-{notebook.front}.ipynb", [SHOW, SAME, PAUSED])
    notebook.run_cell(0)
    output = notebook.output(0)
    expect(output.get_by_role("button", name="Run this step")).to_be_visible()
    return output


def test_a_step_finds_the_softmax_and_leaves_the_model(notebook: Notebook, wizard: Locator) -> None:
    """Choosing the loss's step and running it shows the finding with its place; the model is the same."""
    wizard.get_by_role("button", name="Does the loss get what it expects").click()
    wizard.get_by_role("button", name="Run this step").click()
    expect(wizard).to_contain_text("softmax-before-cross-entropy", timeout=60_000)
    notebook.screenshot(f"wizard-{notebook.front}-light")
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("unchanged: True")
    assert notebook.page.evaluate("() => 'hacked' in window") is False


def test_a_fix_is_tried_on_a_copy(notebook: Notebook, wizard: Locator) -> None:
    """The button trains a patched copy; the verdict with both curves stands in the cell, and in the exported report."""
    wizard.get_by_role("button", name="Does the loss get what it expects").click()
    wizard.get_by_role("button", name="Run this step").click()
    attempt = wizard.get_by_role("button", name="Try it on a copy").first
    expect(attempt).to_be_enabled(timeout=60_000)
    attempt.click()
    expect(attempt).to_be_disabled()
    expect(wizard.get_by_text("verified: ").first).to_be_visible(timeout=120_000)
    notebook.screenshot(f"wizard-tried-{notebook.front}")
    wizard.get_by_role("button", name="Export report").click()
    expect(wizard).to_contain_text("written: report.html")
    assert "verified" in (notebook.server.home / "notebooks" / "report.html").read_text()
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("unchanged: True")


def test_begins_with_the_symptom_and_keeps_what_a_person_says(notebook: Notebook, wizard: Locator) -> None:
    """The symptom leads to its step; a step can be skipped; the next one is recommended with the reason."""
    wizard.get_by_label("What is wrong?").select_option("The loss is NaN")
    chosen = wizard.locator("[aria-current=step]")
    expect(chosen).to_be_visible()
    first = chosen.inner_text()
    wizard.get_by_role("button", name="Skip").click()
    expect(chosen).not_to_have_text(first)
    expect(wizard).to_contain_text("Next:")
    notebook.screenshot(f"wizard-symptom-{notebook.front}")


def test_by_keyboard_alone(notebook: Notebook, wizard: Locator) -> None:
    """Arrow keys choose a step, Tab reaches its button, Enter runs it."""
    tree = wizard.get_by_role("button", name="Does the loss get what it expects")
    tree.focus()
    notebook.page.keyboard.press("Enter")
    expect(wizard.get_by_role("heading", name="Does the loss get what it expects")).to_be_visible()
    for _ in range(12):
        notebook.page.keyboard.press("Tab")
        if notebook.page.evaluate("() => document.activeElement.textContent.trim()") == "Run this step":
            break
    notebook.page.keyboard.press("Enter")
    expect(wizard).to_contain_text("softmax-before-cross-entropy", timeout=60_000)


def test_everything_can_be_cancelled(notebook: Notebook, wizard: Locator) -> None:
    """Run everything answers at once, and Cancel brings the buttons back."""
    wizard.get_by_role("button", name="Run everything").click()
    cancel = wizard.get_by_role("button", name="Cancel")
    expect(cancel).to_be_enabled()
    cancel.click()
    expect(wizard.get_by_role("button", name="Run everything")).to_be_enabled(timeout=30_000)


def test_a_click_during_a_cell_waits(notebook: Notebook, wizard: Locator) -> None:
    """A click while a cell runs is neither lost nor does it disturb the cell."""
    notebook.page.evaluate(
        """() => {
          window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2;
          window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    wizard.get_by_role("button", name="Run this step").click()
    expect(notebook.output(2)).to_contain_text("slept", timeout=30_000)
    expect(wizard).to_contain_text("done", timeout=60_000)


@pytest.mark.timeout(400)
def test_it_looks_right_in_the_dark(notebook: Notebook) -> None:
    """The whole tree runs, and the picture is kept to be looked at."""
    theme: Theme = "JupyterLab Dark"
    notebook.server.set_theme(theme)
    try:
        notebook.open(f"wizard-dark-{notebook.front}.ipynb", [SHOW])
        notebook.run_cell(0)
        output = notebook.output(0)
        output.get_by_role("button", name="Run everything").click()
        expect(output.get_by_text("done", exact=True)).to_be_visible(timeout=250_000)
        output.get_by_role("button", name="Does the loss get what it expects").click()
        expect(output).to_contain_text("softmax-before-cross-entropy")
        notebook.screenshot(f"wizard-{notebook.front}-dark")
    finally:
        notebook.server.set_theme("JupyterLab Light")
