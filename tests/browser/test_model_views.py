"""Activations, gradients, layers and curves in JupyterLab and Notebook 7: drawn, clicked, live, and kernelless."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.jupyter import Notebook, Theme

SHOW = """
import torch, nbdebug
from IPython.display import display
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels))
loader = DataLoader(data, 64, shuffle=True)
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()
    def forward(self, x):
        return x + self.act(self.norm(self.conv(x)))
model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), Block(16), Block(16), Block(16), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
with torch.no_grad():
    model[8].bias[:28] -= 8  # these units never fire
    model[6].weight *= 3
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
model.add_module("<img src=x onerror='window.hacked = 1'>", nn.Identity())
"""
ACTIVATIONS = "nbdebug.show_activations(model, loader)"
GRADIENTS = "nbdebug.show_gradients(model, loader, nn.CrossEntropyLoss(), optimizer)"
LAYERS = "nbdebug.show_layers(model, loader, nn.CrossEntropyLoss(), progress=False)"
LIVE = """
with nbdebug.watch(model, optimizer) as live:
    display(nbdebug.show_live(live))
    for x, y in loader:
        optimizer.zero_grad(); loss = nn.functional.cross_entropy(model(x), y); loss.backward(); optimizer.step()
        live.log(loss=loss)
"""
CELLS = [SHOW, ACTIVATIONS, GRADIENTS, LAYERS, LIVE]


def view(notebook: Notebook, cell: int) -> Locator:
    """Run a cell and give its live view."""
    notebook.run_cell(cell)
    found = notebook.output(cell).locator(".nbdebug-view")
    expect(found).to_be_visible(timeout=60_000)
    return found


def open_row(found: Locator, name: str) -> Locator:
    """Click the row of this name and give what opens."""
    found.get_by_role("button", name=name).first.click()
    detail = found.locator(".nbd-detail")
    expect(detail.locator("h4")).to_be_visible()
    return detail


def keep(notebook: Notebook, found: Locator, name: str) -> None:
    """Keep a picture of one view, to be looked at."""
    found.scroll_into_view_if_needed()
    found.screenshot(path=notebook.shots / f"{name}.png")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_every_view(notebook: Notebook, theme: Theme) -> None:
    """Each view is drawn, a click opens a row, keys move, curves grow, and all of it is there without the kernel."""
    shade = theme.split()[-1].lower()
    notebook.server.set_theme(theme)
    name = f"views-{shade}-{notebook.front}.ipynb"
    notebook.page.set_viewport_size({"width": 1200, "height": 1500})
    notebook.open(name, CELLS)
    notebook.run_cell(0)

    activations = view(notebook, 1)
    expect(open_row(activations, "9, ReLU")).to_contain_text("before the nonlinearity")
    expect(activations.locator("tr[data-mark=suspect]").first).to_be_visible()
    keep(notebook, activations, f"activations-{notebook.front}-{shade}")

    gradients = view(notebook, 2)
    expect(open_row(gradients, "6.weight").locator("svg")).to_have_count(2)
    notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("Enter")
    expect(gradients.locator(".nbd-detail h4")).to_contain_text("6.bias")
    keep(notebook, gradients, f"gradients-{notebook.front}-{shade}")

    layers = view(notebook, 3)
    expect(open_row(layers, "8, Linear")).to_contain_text("dead-units")
    layers.get_by_role("button", name="time").click()
    expect(layers.locator("th[aria-sort=descending]")).to_contain_text("time")
    layers.get_by_role("button", name="time").click()
    layers.get_by_role("button", name="time").click()
    keep(notebook, layers, f"layers-{notebook.front}-{shade}")
    layers.get_by_role("button", name="Graph", exact=True).click()
    layers.get_by_role("button", name="6, Linear").click()
    expect(layers.locator(".nbd-detail")).to_contain_text("input from")
    expect(layers.locator(".nbd-arcs g").first).to_be_visible()  # the residual connections
    keep(notebook, layers, f"graph-{notebook.front}-{shade}")

    curve = view(notebook, 4)
    expect(curve.locator("h3")).to_contain_text("step 29 · idle")
    curve.get_by_label("smoothing").fill("0.6")
    curve.get_by_role("button", name="Zoom in").click()
    keep(notebook, curve, f"curve-{notebook.front}-{shade}")

    for found in (activations, gradients, layers, curve):
        found.evaluate("node => { node.style.width = '400px'; }")
        assert found.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
    assert notebook.page.evaluate("() => 'hacked' in window") is False
    if shade == "light":
        notebook.reopen(name, trusted=True)
        for cell in (1, 2, 4):
            expect(notebook.output(cell).locator("img").first).to_be_visible()
        expect(notebook.output(3)).to_contain_text("dead-units")
        notebook.errors.clear()  # the widget manager itself writes that the models of the widgets are gone
