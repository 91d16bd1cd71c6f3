"""What the tests of the JupyterLab extension share: a model to troubleshoot, and the ways to what it offers."""

from __future__ import annotations

import re

from playwright.sync_api import Locator

from tests.browser.jupyter import Notebook

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


def choose(notebook: Notebook, menu: str, item: str) -> None:
    """Click an item of a menu."""
    bar = notebook.page.locator(".lm-MenuBar").first
    bar.get_by_role("menuitem", name=menu, exact=True).click(timeout=PATIENCE)
    labels = notebook.page.locator(".lm-Menu .lm-Menu-itemLabel")  # without the keys that stand beside them
    labels.filter(has_text=re.compile(f"^{re.escape(item)}$")).click(timeout=PATIENCE)


def call(notebook: Notebook, command: str) -> None:
    """Pick a command in the palette."""
    page = notebook.page
    notebook.start_command("apputils:activate-command-palette")
    page.locator(".lm-CommandPalette-input").fill(f"nbdebug {command}", timeout=PATIENCE)
    page.locator(".lm-CommandPalette-item", has_text=command).click(timeout=PATIENCE)


def explaining(place: Locator | Notebook) -> Locator:
    """The offer to explain an error: in a cell, or anywhere."""
    return (place.page if isinstance(place, Notebook) else place).get_by_role("button", name="Explain with nbdebug")


def line_of_watch(notebook: Notebook) -> Locator:
    """The line with step, loss and health: in the status bar, or in the toolbar where there is none."""
    place = "#jp-main-statusbar" if notebook.front == "lab" else ".jp-NotebookPanel-toolbar, .jp-Toolbar"
    return notebook.page.locator(place).locator(".nbdebug-watch")
