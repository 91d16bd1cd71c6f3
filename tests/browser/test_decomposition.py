"""The decomposition of the error in the wizard, in JupyterLab and Notebook 7."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.jupyter import Notebook

SHOW = """
import torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
x, y = (torch.tensor(values) for values in load_digits(return_X_y=True))
x = x.float() / 16
order = torch.randperm(len(x))
loaders = [DataLoader(TensorDataset(x[rows], y[rows]), 60) for rows in (order[:60], order[300:900], order[900:1500])]
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer, loss_fn = torch.optim.Adam(model.parameters(), 3e-3), nn.CrossEntropyLoss()
for _ in range(60):
    optimizer.zero_grad()
    loss_fn(model(x[order[:60]]), y[order[:60]]).backward()
    optimizer.step()
wizard = nbdebug.wizard(model, loaders[0], loss_fn, optimizer, val_loader=loaders[1], test_loader=loaders[2])
wizard
"""


def test_the_button_shows_the_shares(notebook: Notebook) -> None:
    """The last stage has a button; the bar, the table and the advice that fits the largest share follow it."""
    notebook.open(f"decompose-{notebook.front}.ipynb", [SHOW])
    notebook.run_cell(0)
    wizard = notebook.output(0)
    wizard.get_by_role("button", name="Bias, variance, shift").first.click(timeout=60_000)
    wizard.get_by_role("button", name="Run this step").click()
    expect(wizard.get_by_role("cell", name="variance")).to_be_visible(timeout=60_000)
    expect(wizard).to_contain_text("The model overfits")
    bar = wizard.locator("img[alt*='avoidable bias']")
    expect(bar).to_be_visible()
    assert bar.evaluate("image => image.naturalWidth") > 100
    assert bar.evaluate("image => image.getBoundingClientRect().width <= image.closest('div').clientWidth + 1")
    wizard.get_by_text("The model overfits").scroll_into_view_if_needed()
    notebook.screenshot(f"decompose-{notebook.front}")
