"""The JupyterLab extension, in JupyterLab and in Notebook 7."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.jupyter import EXTENSION, Front, Notebook, Theme

MAKE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(256, 12)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
# Pictures of both themes, at no further cost.
THEMES: dict[Front, Theme] = {"lab": "JupyterLab Dark", "notebook": "JupyterLab Light"}
PATIENCE = 60_000  # milliseconds, for what loads torch or the whole of nbdebug on a busy machine
NAMES = "print(sorted(name for name in globals() if 'nbdebug' in name), len(In))"


def test_the_button_offers_what_is_alive_and_inserts_the_wizard(notebook: Notebook) -> None:
    assert EXTENSION.is_dir(), "the extension is not built; run `make front`"
    notebook.open(f"picking-{notebook.front}.ipynb", [MAKE, NAMES])
    page = notebook.page
    page.get_by_role("button", name="Troubleshoot").click()
    expect(page.locator(".jp-Dialog")).to_contain_text("no torch model and no loader among the variables")
    page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()
    notebook.run_cell(0)
    page.get_by_role("button", name="Troubleshoot").click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog.get_by_label("Model")).to_have_value("model")
    expect(dialog.get_by_label("Model")).to_contain_text("Sequential, 242 parameters, weights (16, 12) … (2, 16)")
    expect(dialog.get_by_label("Loader")).to_contain_text("(256, 12) float32 and (256,) int64")
    expect(dialog.get_by_label("Loss")).to_have_value("criterion")
    notebook.screenshot(f"lab-picker-{notebook.front}")
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("[] 3")  # nothing in the namespace, and only the two cells in the history
    dialog.get_by_role("button", name="Insert a cell").click()
    expect(notebook.cell(1)).to_contain_text("nbdebug.wizard(model, loader, criterion, optimizer)")
    notebook.wait_for_idle()
    expect(notebook.output(1).get_by_role("button", name="Run this step")).to_be_visible(timeout=PATIENCE)


FAILS = "model(torch.randn(4, 13))"
TRAIN = """
import time
with nbdebug.watch(model, optimizer) as live:
    while True:
        for inputs, labels in loader:
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
            time.sleep(0.005)
"""
ENDED = "print('ended', not live.is_running and live.step > 0)"


def line_of_watch(notebook: Notebook) -> Locator:
    """The line with step, loss and health: in the status bar, or in the toolbar where there is none."""
    place = "#jp-main-statusbar" if notebook.front == "lab" else ".jp-NotebookPanel-toolbar, .jp-Toolbar"
    return notebook.page.locator(place).locator(".nbdebug-watch")


def test_an_error_is_explained_and_a_training_is_followed_and_stopped(notebook: Notebook) -> None:
    notebook.server.set_theme(THEMES[notebook.front])
    notebook.open(f"watching-{notebook.front}.ipynb", [f"import nbdebug\n{MAKE}", FAILS, "1 / 0", TRAIN, ENDED])
    page = notebook.page
    notebook.run_cell(0)
    notebook.run_cell(1)
    page.get_by_role("button", name="Explain with nbdebug").click()
    expect(notebook.output(1)).to_contain_text("What would fit: in_features=13 (it is 12)", timeout=PATIENCE)
    expect(page.get_by_role("button", name="Explain with nbdebug")).to_have_count(0)
    notebook.screenshot(f"lab-error-{notebook.front}")
    notebook.run_cell(2)
    expect(notebook.output(2)).to_contain_text("ZeroDivisionError")
    notebook.start_command("nbdebug:open-panel")
    notebook.begin_cell(3)
    line = line_of_watch(notebook)
    expect(line).to_contain_text("healthy", timeout=PATIENCE)
    expect(line).to_contain_text("loss 0.")
    panel = page.locator("#nbdebug-panel")
    expect(panel.locator(".nbd-plot").first).to_be_visible()
    notebook.screenshot(f"lab-watch-{notebook.front}")
    expect(page.get_by_role("button", name="Explain with nbdebug")).to_have_count(0)  # nothing of torch's failed
    line.get_by_role("button", name="Stop").click()
    notebook.wait_for_idle()
    expect(line).to_be_hidden()
    expect(panel).to_contain_text("at rest")
    notebook.run_cell(4)
    expect(notebook.output(4)).to_have_text("ended True")


SICK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.last = nn.Softmax(dim=1)
        self.head = nn.Linear(16, 2)
    def forward(self, x):
        return self.last(self.head(self.body(x).relu()))
model = Net()
"""


def test_the_wizard_beside_the_notebook_leads_to_the_line_and_exports(notebook: Notebook) -> None:
    notebook.server.set_settings("nbdebug:plugin", {"timeLimit": 120, "reportPath": "out/found.html"})
    notebook.open(f"beside-{notebook.front}.ipynb", [MAKE, SICK])
    page = notebook.page
    notebook.run_cell(0)
    notebook.run_cell(1)
    page.get_by_role("button", name="Troubleshoot").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Open beside the notebook").click()
    panel = page.locator("#nbdebug-panel")
    expect(panel.get_by_role("button", name="Run this step")).to_be_visible(timeout=PATIENCE)
    panel.get_by_role("button", name="Does the loss get what it expects").click()
    panel.get_by_role("button", name="Run this step").click()
    link = panel.get_by_role("button", name="bug: softmax-before-cross-entropy at last")
    link.click(timeout=PATIENCE)
    expect(page.locator(".jp-Notebook .jp-Cell.jp-mod-active")).to_contain_text("class Net")
    assert page.evaluate("() => window.getSelection().toString().trim()") == "self.last = nn.Softmax(dim=1)"
    notebook.screenshot(f"lab-beside-{notebook.front}")
    notebook.start_command("nbdebug:export-report")
    dialog = page.locator(".jp-Dialog")
    expect(dialog.get_by_label("Save as")).to_have_value("out/found.html")
    dialog.get_by_role("button", name="Export").click()
    expect(dialog).to_contain_text("Written: out/found.html", timeout=PATIENCE)
    assert "softmax-before-cross-entropy" in (notebook.server.home / "notebooks/out/found.html").read_text()
    dialog.get_by_role("button", name="Ok").click()


def test_nothing_stays_when_it_is_switched_off(notebook: Notebook) -> None:
    notebook.open(f"off-{notebook.front}.ipynb", [FAILS])
    page = notebook.page
    expect(page.get_by_role("button", name="Troubleshoot")).to_be_visible()
    left = page.evaluate(
        """async () => {
          await window.jupyterapp.deactivatePlugin('nbdebug:plugin');
          return window.jupyterapp.commands.listCommands().filter((id) => id.startsWith('nbdebug:'));
        }"""
    )
    assert left == []
    expect(page.locator("#nbdebug-panel")).to_have_count(0)
    notebook.run_cell(0)
    expect(page.get_by_role("button", name="Explain with nbdebug")).to_have_count(0)
