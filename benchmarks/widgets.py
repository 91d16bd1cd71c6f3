"""What the widgets cost: first paint, the answer to a click, the size of messages, and the heap of the page.

The page is a real JupyterLab in Chromium with a real kernel. The hour of watching is played by a clock that runs ahead
of the training. `python -m benchmarks.widgets` prints the table of docs/viewers.md.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from playwright.sync_api import Page, expect, sync_playwright
from torch import nn

import nbdebug
from nbdebug.watch.live import REFRESH
from nbdebug.widgets import bundle
from tests.browser.conftest import FLAGS
from tests.browser.jupyter import Notebook, Server
from tests.browser.pages import new_page, step_named
from tests.zoo.tabular import digits

SETUP = """
import time, torch, nbdebug
from IPython.display import display
from tests.zoo.tabular import digits
from torch import nn
torch.set_num_threads(1)
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.01)
        return x
loader = digits()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), Slow())
nbdebug.wizard(model, loader).close()  # so that everything is imported
"""
WIZARD = """
begun = time.perf_counter()
wizard = nbdebug.wizard(model, loader, nn.CrossEntropyLoss())
display(wizard)
print("kernel", time.perf_counter() - begun)
"""
LIVE = """
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with nbdebug.watch(model[:3], optimizer) as live:
    for x, y in list(loader) * 12:
        optimizer.zero_grad(); loss = nn.functional.cross_entropy(model[:3](x), y); loss.backward(); optimizer.step()
        live.log(loss=loss)
view = nbdebug.show_live(live)
view
"""
UPDATE = """
for number in range({count}):
    view._widget.data = view.data | {{"steps": number}}
"""
UPDATES, WARMING = 2000, 200
# From the click to the moment at which the button shows it, and at which the kernel has disabled it.
CLICK = """([run]) => new Promise((done) => {
  const seen = {};
  const begun = performance.now();
  const look = () => {
    if (run.getAttribute('aria-busy')) seen.shown ??= performance.now() - begun;
    if (run.disabled) { seen.heard ??= performance.now() - begun; watch.disconnect(); done(seen); }
  };
  const watch = new MutationObserver(look);
  watch.observe(run, { attributes: true });
  run.click();
  look();
})"""
Row = tuple[str, str, str, str]


@contextmanager
def lab() -> Iterator[Notebook]:
    """Open JupyterLab in Chromium."""
    home = Path(tempfile.mkdtemp()) / "home"
    server = Server.start(home)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            with new_page(server, browser, "lab", home) as notebook:
                yield notebook
            browser.close()
    finally:
        server.stop()


def row(what: str, value: float, most: float | None, unit: str, digits: int = 0) -> Row:
    """Return one line of the table: what, how much, at most how much, and whether that holds where there is a
    target.
    """
    measured = f"{value:,.{digits}f} {unit}"
    if most is None:
        return what, measured, "", ""
    return what, measured, f"≤ {most:,.0f} {unit}", "holds" if value <= most else "**missed**"


def first_paint(notebook: Notebook, cell: int) -> float:
    """Return the seconds from running the cell to the button that can be clicked, less those of the kernel."""
    begun = time.perf_counter()
    notebook.page.evaluate(
        """(index) => {
          window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
          window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        cell,
    )
    output = notebook.output(cell)
    expect(output.get_by_role("button", name="Run diagnosis").first).to_be_visible(timeout=60_000)
    seconds = time.perf_counter() - begun
    expect(output).to_contain_text("kernel ")
    printed = output.locator("pre", has_text="kernel ").first.inner_text()
    return seconds - float(printed.split()[1])


def clicks(notebook: Notebook, cell: int) -> tuple[float, float]:
    """Return the milliseconds until a click on Stop shows while an experiment runs, and until the kernel answers."""
    output = notebook.output(cell)
    output.get_by_role("button", name=step_named("memorize")).first.click()
    output.get_by_role("button", name="Run this step").click()
    expect(output).to_contain_text("overfitting one batch", timeout=60_000)
    button = output.get_by_role("button", name="Stop").element_handle()
    seen = notebook.page.evaluate(CLICK, [button])
    return float(seen["shown"]), float(seen["heard"])


def heap(page: Page) -> float:
    """Return the megabytes that the page holds after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = float(session.send("Runtime.getHeapUsage")["usedSize"])
    session.detach()
    return used / 1e6


def growth(notebook: Notebook, cell: int) -> float:
    """Return the megabytes by which the page's heap grows over the updates of a live view."""
    notebook.run_cell(cell)
    curve = notebook.output(cell).locator(".nbdebug-view h3")
    expect(curve).to_be_visible(timeout=60_000)
    held = []
    for count in (WARMING, UPDATES):
        notebook.execute(UPDATE.format(count=count))
        expect(curve).to_contain_text(f"step {count - 1:,}", timeout=120_000)
        held.append(heap(notebook.page))
    return held[1] - held[0]


@contextmanager
def messages() -> Iterator[list[tuple[str, int]]]:
    """Collect the kind and the bytes of every message to the front end."""
    sent: list[tuple[str, int]] = []

    def publish(_: Any, kind: str, data: Any = None, **more: Any) -> None:
        sent.append((kind, len(json.dumps(data or {}, default=str))))

    with mock.patch("comm.base_comm.BaseComm.publish_msg", publish), mock.patch("comm.DummyComm.publish_msg", publish):
        yield sent


def picture_of_fifty() -> tuple[int, float]:
    """Return the number of messages that carry the activations of fifty layers, and the kilobytes of the picture."""
    model = nn.Sequential(*(part for _ in range(25) for part in (nn.Linear(64, 64), nn.ReLU())))
    view = nbdebug.show_activations(model, digits())
    with messages() as sent:
        view.widget  # noqa: B018 - the live view is made when it is asked for
    large = [size for kind, size in sent if kind == "comm_open" and size > 20_000]
    view.close()
    return len(large), len(json.dumps(view.data)) / 1e3


def hour() -> tuple[int, float]:
    """Return the number and the megabytes of the messages of an hour of training, with a clock that runs ahead.

    Every three steps the clock goes on by as much as a view is let wait for its next message: no hour has more of them.
    """
    ahead, taken = [0.0], 0
    model, optimizer = loops_model()
    real, data = time.perf_counter, list(digits())  # findings are looked for by another clock, as often as it takes
    clock = mock.patch.object(time, "perf_counter", side_effect=lambda: real() + ahead[0])
    with clock, messages() as sent, nbdebug.watch(model, optimizer) as live:
        view = nbdebug.show_live(live)
        view.widget  # noqa: B018
        while ahead[0] < 3600:
            taken += 1
            ahead[0] += max(REFRESH, 0.01 * ahead[0]) if taken % 3 == 0 else 0.0
            x, y = data[taken % len(data)]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            live.log(loss=loss, val_loss=loss * 1.1, accuracy=0.5)
    view.close()
    return len(sent), sum(size for _, size in sent) / 1e6


def loops_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return a small network and its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return model, torch.optim.SGD(model.parameters(), 0.05)


def in_the_browser() -> list[Row]:
    """Measure what needs a page."""
    with lab() as notebook:
        notebook.open("bench.ipynb", [SETUP, WIZARD, WIZARD, LIVE])
        notebook.run_cell(0)
        cold = first_paint(notebook, 1)
        notebook.wait_for_idle()
        warm = first_paint(notebook, 2)
        notebook.wait_for_idle()
        shown, heard = clicks(notebook, 2)
        notebook.wait_for_idle()
        grown = growth(notebook, 3)
        notebook.errors.clear()
    return [
        row("first paint of the first wizard of a page, beyond the kernel's own time", 1000 * cold, 1000, "ms"),
        row("first paint of a further wizard, beyond the kernel's own time", 1000 * warm, 1000, "ms"),
        row("a click shows on its button while an experiment runs", shown, 100, "ms", 1),
        row("the kernel has answered that click", heard, None, "ms"),
        row(f"growth of the page's heap over {UPDATES:,} updates of the curves", grown, 20, "MB", 1),
    ]


def main() -> None:
    """Measure everything and print the table."""
    count, size = picture_of_fifty()
    sent, megabytes = hour()
    built = [path for path in bundle.STATIC.iterdir() if path.suffix in (".js", ".css")]
    whole = sum(path.stat().st_size for path in built) / 1e3
    rows = [
        *in_the_browser(),
        row(f"activations of 50 layers, in {count} message", size, 100, "kB"),
        row(f"an hour of watching, in {sent:,} messages", megabytes, 50, "MB", 1),
        row("the whole front end, minified", whole, 150, "kB"),
    ]
    print("| what | measured | target | |\n|---|---|---|---|")
    for cells in rows:
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
