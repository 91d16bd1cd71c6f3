"""The wizard for those who see little, do not see, or use no mouse: axe-core finds nothing serious on any screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.jupyter import Notebook, Server
from tests.browser.looks import themed
from tests.browser.pages import complain, new_page, step_named

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async () => {
  const found = await axe.run(document.querySelector(".nbdebug-wizard"), { resultTypes: ["violations"] });
  return found.violations.filter(one => ["serious", "critical"].includes(one.impact)).map(one =>
    `${one.id}: ${one.help}: ` + one.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" | "));
}"""
SETUP = """
import torch, nbdebug
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(256, 12)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=1))
"""
WIZARD = "nbdebug.wizard(model, loader, nn.CrossEntropyLoss())"
TABS = ("Batch", "Activations", "Gradients", "Training", "Layers")
PATIENCE = 240_000  # milliseconds; other tests share the machine
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm --prefix js ci"),
]


@pytest.fixture(scope="module")
def notebook(server: Server, browser: Browser, shots: Path) -> Iterator[Notebook]:
    with new_page(server, browser, "lab", shots) as opened:
        opened.open("accessible.ipynb", [SETUP, WIZARD])
        opened.run_all()
        opened.scroll_to(1)
        opened.page.evaluate(AXE.read_text(encoding="utf-8"))
        yield opened
        complain(opened)


def button(wizard: Locator, name: str) -> Locator:
    return wizard.get_by_role("button", name=name).locator("visible=true").first


def serious(notebook: Notebook, screen: str) -> dict[str, Any]:
    """Return what axe-core finds on this screen in both themes; a picture of it is kept in high contrast."""
    found = {}
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        themed(notebook, theme)
        found[f"{screen}, {theme}"] = notebook.page.evaluate(RUN)
    themed(notebook, "JupyterLab Light")
    notebook.page.emulate_media(forced_colors="active")
    notebook.screenshot(f"forced-colors-{screen}")
    notebook.page.emulate_media(forced_colors="none")
    return {place: violations for place, violations in found.items() if violations}


def test_no_screen_has_a_serious_violation(notebook: Notebook) -> None:
    wizard = notebook.output(1)
    expect(button(wizard, "Run diagnosis")).to_be_visible(timeout=PATIENCE)
    found = serious(notebook, "start")
    wizard.get_by_role("button", name=step_named("loss-reads-outputs")).first.click()
    button(wizard, "Run this step").click()
    expect(wizard).to_contain_text("softmax-before-cross-entropy", timeout=PATIENCE)
    expect(button(wizard, "Run diagnosis")).to_be_enabled(timeout=PATIENCE)
    found |= serious(notebook, "step")
    button(wizard, "Run diagnosis").click()
    expect(button(wizard, "Stop")).to_be_visible(timeout=PATIENCE)
    expect(wizard.get_by_role("heading", level=1).first).to_be_visible(timeout=PATIENCE)
    expect(wizard.locator(".nbdebug-on-verdict")).to_be_visible(timeout=PATIENCE)  # the run has ended
    expect(wizard.locator(".nbd-fix").first).to_be_visible()
    found |= serious(notebook, "verdict")
    for tab in TABS:
        wizard.locator(".nbdebug-tabs").get_by_role("button", name=tab, exact=True).click()
        expect(wizard.locator(".nbdebug-explored").locator("section, h4, p").first).to_be_visible(timeout=PATIENCE)
        found |= serious(notebook, tab.lower())
    assert not found, "\n".join(f"{place}:\n  " + "\n  ".join(said) for place, said in found.items())


def test_progress_is_in_a_live_region_and_focus_can_be_seen(notebook: Notebook) -> None:
    wizard = notebook.output(1)
    told = wizard.locator(".nbdebug-told .widget-html[role=status][aria-live=polite]")
    expect(told).to_have_count(1)
    tab = wizard.locator(".nbdebug-tabs").get_by_role("button", name="Verdict", exact=True)
    tab.focus()
    notebook.page.keyboard.press("Tab")
    assert notebook.page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
    notebook.page.keyboard.press("Shift+Tab")
    notebook.page.keyboard.press("Enter")
    expect(wizard.get_by_role("heading", level=1).first).to_be_visible(timeout=PATIENCE)
