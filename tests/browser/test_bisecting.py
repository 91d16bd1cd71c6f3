"""*I have a version that works* in the browser: what broke a training, and the report copied for an assistant."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.jupyter import Notebook
from tests.browser.looks import themed

SETUP = """
import torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)

def made(lr=3e-3, batch=32):
    torch.manual_seed(0)
    x, y = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return {"model": model, "loader": DataLoader(data, batch, shuffle=True), "loss_fn": nn.CrossEntropyLoss(),
            "optimizer": torch.optim.Adam(model.parameters(), lr=lr)}
"""
WIZARD = "wizard = nbdebug.wizard(**made(lr=1e-8, batch=40))\nwizard"
pytestmark = pytest.mark.timeout(400)


def test_a_version_that_works(notebook: Notebook) -> None:
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notebook.open(f"bisecting-{notebook.front}.ipynb", [SETUP, WIZARD])
    for number in range(2):
        notebook.run_cell(number)
    wizard = notebook.output(1).locator(".nbdebug-wizard")
    begin = wizard.get_by_role("button", name="Find what broke it")
    expect(begin).to_be_hidden()
    wizard.get_by_role("button", name="I have a version that works").click()
    wizard.locator(".nbdebug-works input").fill("made")
    begin.click()
    expect(wizard.get_by_text("bad fails because of its learning rate").first).to_be_visible(timeout=200_000)
    expect(wizard.locator(".nbdebug-ask img").first).to_be_visible()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        themed(notebook, theme)  # type: ignore[arg-type]
        notebook.page.set_viewport_size({"width": 1200, "height": 1500})
        wizard.evaluate("node => node.scrollIntoView({ block: 'start' })")
        notebook.screenshot(f"bisecting-{notebook.front}-{theme[-5:].strip().lower()}")
    wizard.get_by_role("button", name="Run diagnosis").locator("visible=true").first.click()
    expect(wizard.get_by_text("done", exact=True)).to_be_visible(timeout=200_000)
    wizard.get_by_role("button", name="Copy for an assistant").first.click()
    expect(wizard.locator("button[data-said='Copied']")).to_be_visible()
    copied = notebook.page.evaluate("() => navigator.clipboard.readText()")
    assert "rate" in copied and len(copied) <= 4000
