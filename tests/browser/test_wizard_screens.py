"""Every screen of the wizard at three widths, in both themes and in high contrast: nothing cut, one primary button."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.jupyter import Notebook, Server
from tests.browser.looks import themed
from tests.browser.pages import complain, new_page, step_named

SETUP = """
import torch, nbdebug
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
pixels, labels = load_digits(return_X_y=True)
images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
loader = DataLoader(TensorDataset(images, torch.tensor(labels)), 64, shuffle=True)
class VisionTransformerForImageClassification(nn.Sequential):
    pass
hidden = nn.Linear(32, 32)
nn.init.constant_(hidden.bias, -7.0)
model = VisionTransformerForImageClassification(
    nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), hidden, nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
"""
WIZARD = "nbdebug.wizard(model, loader, nn.CrossEntropyLoss(), optimizer)"
WIDTHS = (1400, 900, 600)
PATIENCE = 240_000  # milliseconds; other tests share the machine
# What can be seen and reaches over the edge of the wizard, or is cut where no one can scroll.
CUT = """root => {
  const edge = root.getBoundingClientRect().right + 1;
  const names = "button, select, label, .nbdebug-chip, h1, h3, h4, p, li, figcaption, td, .bqplot";
  return [...root.querySelectorAll(names)].filter(node => {
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    if (!node.checkVisibility() || box.width <= 1 || node.closest(".nbd-scroll, .nbdebug-scroll, pre")) return false;
    if (node.closest(".nbdebug-view")?.contains(node) && node.closest(".nbd-grid")) return false; // which scrolls
    const hides = style.overflowX === "hidden" && style.textOverflow !== "ellipsis";
    return box.right > edge || (hides && node.scrollWidth > node.clientWidth + 1);
  }).map(node => `${node.tagName} ${node.className}: ${node.textContent.trim().slice(0, 60)}`);
}"""
PRIMARY = """root => [...root.querySelectorAll(".jupyter-button.mod-primary")].filter(node =>
  node.checkVisibility() && getComputedStyle(node).backgroundColor === "rgb(21, 101, 192)")
  .map(node => node.textContent)"""
# The texts of the largest size on the screen.
LARGEST = """root => {
  const seen = [...root.querySelectorAll("*")].filter(node => node.checkVisibility() &&
    [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
  const size = node => parseFloat(getComputedStyle(node).fontSize);
  const most = Math.max(...seen.map(size));
  return seen.filter(node => size(node) === most).map(node => node.closest("h1, h3, button, b")?.textContent ?? "");
}"""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=["lab", "notebook"])
def notebook(request: pytest.FixtureRequest, server: Server, browser: Browser, shots: Path) -> Iterator[Notebook]:
    with new_page(server, browser, request.param, shots) as opened:
        opened.page.set_viewport_size({"width": 1400, "height": 1100})
        opened.open(f"screens-{request.param}.ipynb", [SETUP, WIZARD])
        collapse = "() => window.jupyterapp.shell.collapseLeft?.()"  # so that the widths are about those of the cell
        opened.page.evaluate(collapse)
        opened.run_all()
        opened.scroll_to(1)
        yield opened
        complain(opened)


def wizard_of(notebook: Notebook) -> Locator:
    return notebook.output(1).locator(".nbdebug-wizard").first


def button(wizard: Locator, name: str) -> Locator:
    return wizard.get_by_role("button", name=name).locator("visible=true").first


def wrong(notebook: Notebook, screen: str) -> dict[str, Any]:
    """Return what is cut at any width in either theme, and where there is more than one primary button."""
    wizard, found = wizard_of(notebook), {}
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        themed(notebook, theme)
        for width in WIDTHS:
            notebook.page.set_viewport_size({"width": width, "height": 1100})
            notebook.page.wait_for_timeout(400)
            place = f"{screen}-{notebook.front}-{theme.split()[-1].lower()}-{width}"
            found[place] = [*wizard.evaluate(CUT), *wizard.evaluate(PRIMARY)[1:]]
            notebook.screenshot(f"screen-{place}")
    themed(notebook, "JupyterLab Light")
    notebook.page.set_viewport_size({"width": 1400, "height": 1100})
    notebook.page.emulate_media(forced_colors="active")
    notebook.screenshot(f"screen-{screen}-{notebook.front}-contrast")
    notebook.page.emulate_media(forced_colors="none")
    return {place: said for place, said in found.items() if said}


def test_every_screen_fits_and_has_one_primary_button(notebook: Notebook) -> None:
    wizard = wizard_of(notebook)
    expect(button(wizard, "Run diagnosis")).to_be_visible(timeout=PATIENCE)
    found = wrong(notebook, "start")
    button(wizard, "Run diagnosis").click()
    figure = wizard.locator(".nbdebug-picture .bqplot").locator("visible=true")
    expect(figure.first).to_be_visible(timeout=PATIENCE)  # the loss of a training, while it runs
    expect(wizard.locator(".nbdebug-told").last).to_contain_text("s left", timeout=PATIENCE)
    expect(wizard.locator("xpath=self::*[contains(@class, 'nbdebug-on-verdict')]")).to_be_visible(timeout=PATIENCE)
    expect(wizard.locator("h1").first).to_contain_text("are dead")
    assert all("are dead" in text for text in wizard.evaluate(LARGEST)), "the largest text is the finding"
    expect(figure.first).to_be_visible()
    found |= wrong(notebook, "verdict")
    wizard.get_by_role("button", name=step_named("first-loss")).first.click()
    expect(figure.first).to_be_visible(timeout=PATIENCE)
    found |= wrong(notebook, "step")
    for tab in ("Batch", "Activations", "Gradients", "Training", "Layers"):
        wizard.locator(".nbdebug-tabs").get_by_role("button", name=tab, exact=True).click()
        expect(wizard.locator(".nbdebug-explored").locator("section, .bqplot").first).to_be_visible(timeout=PATIENCE)
        found |= wrong(notebook, tab.lower())
    assert not found, "\n".join(f"{place}: {said}" for place, said in found.items())


def test_a_click_on_a_bar_selects_its_parameter_everywhere(notebook: Notebook) -> None:
    wizard = wizard_of(notebook)
    tabs = wizard.locator(".nbdebug-tabs")
    tabs.get_by_role("button", name="Gradients", exact=True).click()
    detail = wizard.locator(".nbdebug-detail").locator("visible=true")
    bars = detail.locator(".bqplot").first.locator("rect.bar")
    expect(bars).to_have_count(6, timeout=PATIENCE)
    widest = bars.evaluate_all("all => all.map(bar => bar.getBoundingClientRect().width)")
    bars.nth(widest.index(max(widest))).click()
    chosen = wizard.locator(".nbdebug-selected b").locator("visible=true")
    expect(chosen).to_have_text("5.bias", timeout=PATIENCE)
    expect(detail.locator("h4").first).to_contain_text("5.bias")
    tabs.get_by_role("button", name="Activations", exact=True).click()
    expect(detail.locator("h4").first).to_contain_text("5 · Linear", timeout=PATIENCE)
    expect(detail.locator(".bqplot").first).to_be_visible(timeout=PATIENCE)


def test_nothing_moves_where_a_person_wants_no_motion(notebook: Notebook) -> None:
    notebook.page.emulate_media(reduced_motion="reduce")
    moving = """root => [...root.querySelectorAll("*")].filter(node => {
      const style = getComputedStyle(node);
      return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
    }).map(node => node.outerHTML.slice(0, 120))"""
    assert wizard_of(notebook).evaluate(moving) == []
    notebook.page.emulate_media(reduced_motion="no-preference")
