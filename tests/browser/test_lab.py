"""The JupyterLab extension, in JupyterLab and in Notebook 7."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.jupyter import EXTENSION, Notebook

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
