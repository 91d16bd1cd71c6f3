"""The batch viewer in JupyterLab and Notebook 7: clicks, keys, themes, hostile names, and life without a kernel."""

from __future__ import annotations

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
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels))
loader = DataLoader(data, 32, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for x, y in list(loader)[:25]:
    optimizer.zero_grad(); nn.functional.cross_entropy(model(x), y).backward(); optimizer.step()
names = "zero one two three four five six seven eight nine".split()
before = [p.detach().clone() for p in model.parameters()]
viewer = nbdebug.show_batch(loader, model, class_names=names)
viewer
"""
HOSTILE = """viewer._source.names(("<img src=x onerror='window.hacked = 1'>",) * 10); viewer.again()"""
SAME = "print('unchanged:', all(torch.equal(a, b) for a, b in zip(before, model.parameters())))"


def opened(notebook: Notebook, name: str) -> Locator:
    """Run the cell and give the live view."""
    notebook.open(f"{name}-{notebook.front}.ipynb", [SHOW, SAME])
    notebook.run_cell(0)
    view = notebook.output(0).locator(".nbdebug-view")
    expect(view.get_by_role("heading", name="Batch 1 of 57")).to_be_visible()
    return view


def losses(view: Locator) -> list[float]:
    """Return the losses of the cards in their order."""
    texts = view.locator("[data-place]").evaluate_all(
        "all => all.map(each => Number(each.textContent.match(/loss ([0-9.]+)/)[1]))"
    )
    return [float(text) for text in texts]


def keyboard_only(notebook: Notebook, view: Locator) -> None:
    """Arrows move among the samples, Enter opens one, Escape closes it, and Enter on a button gets the next batch."""
    view.locator("[data-place]").first.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(view.locator("[data-place]").nth(1)).to_be_focused()
    notebook.page.keyboard.press("Enter")
    expect(view.locator(".nbd-detail")).to_contain_text("sample", timeout=20_000)
    notebook.page.keyboard.press("Escape")
    expect(view.locator(".nbd-detail")).to_be_empty()
    view.get_by_role("button", name="Next batch").focus()
    notebook.page.keyboard.press("Enter")
    expect(view.get_by_role("heading", name="Batch 3 of 57")).to_be_visible(timeout=20_000)
    assert notebook.page.evaluate("() => document.activeElement.dataset.act") == "next"


def test_sort_filter_next_and_one_sample(notebook: Notebook) -> None:
    """The worst come first, the wrong ones can be kept, a click opens a sample, and the next batch comes."""
    view = opened(notebook, "batch")
    view.screenshot(path=notebook.shots / f"batch-{notebook.front}-light.png")
    notebook.execute(HOSTILE)
    expect(view.locator("[data-place]").first).to_contain_text("<img src=x")
    expect(notebook.output(0).locator(".nbdebug-static")).to_be_hidden()  # the live view takes its place
    view.get_by_label("Order of the samples").select_option("loss")
    found = losses(view)
    assert len(found) == 32 and found == sorted(found, reverse=True)
    view.get_by_label("wrong only").check()
    assert 0 < view.locator("[data-place]").count() < 32
    expect(view.locator("[data-right=true]")).to_have_count(0)
    view.locator("[data-place]").first.click()
    expect(view.locator(".nbd-detail")).to_contain_text("same values every time", timeout=20_000)
    view.get_by_role("button", name="Next batch").click()
    expect(view.get_by_role("heading", name="Batch 2 of 57")).to_be_visible(timeout=20_000)
    keyboard_only(notebook, view)
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("unchanged: True")
    assert notebook.page.evaluate("() => 'hacked' in window") is False


def test_it_fits_400_pixels_in_the_dark(notebook: Notebook) -> None:
    """Nothing is cut off on a narrow page, and the theme's colors are taken."""
    theme: Theme = "JupyterLab Dark"
    notebook.server.set_theme(theme)
    view = opened(notebook, "batch-dark")
    notebook.page.set_viewport_size({"width": 700, "height": 900})
    notebook.screenshot(f"batch-{notebook.front}-dark")
    paper = view.evaluate("node => getComputedStyle(node).backgroundColor")
    assert max(int(part) for part in paper.removeprefix("rgb(").rstrip(")").split(", ")) < 80
    view.evaluate("node => { node.style.width = '400px'; }")
    assert view.evaluate("node => node.scrollWidth <= node.clientWidth + 1")


def test_without_a_kernel_the_picture_is_there(notebook: Notebook) -> None:
    """Saved and opened again without its kernel, the notebook still shows the pictures, trusted or not."""
    opened(notebook, "batch-saved")
    for trusted in (True, False):
        notebook.reopen(f"batch-saved-{notebook.front}.ipynb", trusted=trusted)
        expect(notebook.output(0).locator("img[alt*=loss]").first).to_be_visible()
    notebook.errors.clear()  # the widget manager itself writes that the model of the widget is gone
