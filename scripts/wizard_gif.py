"""Makes docs/images/wizard.gif: JupyterLab in Chromium, where the wizard finds a bug and proves its fix on a copy.

Nothing is drawn: every frame is a screenshot of a real run. What it clicks is found by roles and names of buttons.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "wizard.gif"
SIZE: ViewportSize = {"width": 1100, "height": 920}  # so that the buttons below the verdict are seen
WIDTH = 880  # of the picture; text stays legible
COLORS = 96
MAX_BYTES = 3_000_000
RUNNING, READING = 700, 3500  # milliseconds that a frame stays
SYMPTOM = re.compile(r"loss does not fall", re.IGNORECASE)
DIAGNOSE = re.compile(r"\brun diagnosis", re.IGNORECASE)
TRY_FIX = re.compile(r"\b(try|verify)\b.*\b(fix|copy)\b", re.IGNORECASE)
VERIFIED = re.compile(r"\bverified\b", re.IGNORECASE)
CELLS = [
    """\
import nbdebug, torch
from sklearn.datasets import load_digits
from torch import nn, utils

images, labels = load_digits(return_X_y=True)
data = utils.data.TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
loader = utils.data.DataLoader(data, 64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(dim=1))""",
    "nbdebug.wizard(model, loader, nn.CrossEntropyLoss())",
]


class Film:
    """Screenshots of a page with the time that each is shown; one like the last only prolongs it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[tuple[bytes, int]] = []

    def take(self, milliseconds: int) -> None:
        """Take one picture of the page."""
        shot = self.page.screenshot()
        if self.frames and self.frames[-1][0] == shot:
            shot, before = self.frames.pop()
            milliseconds = min(before + milliseconds, READING)
        self.frames.append((shot, milliseconds))

    def follow(self, until: Locator, seconds: int = 180) -> None:
        """Take pictures until something can be seen; of a long wait only some are kept."""
        begun = len(self.frames)
        for _ in range(seconds):
            if until.locator("visible=true").count():
                break
            self.take(RUNNING)
            self.page.wait_for_timeout(1000)
        else:
            raise SystemExit(f"not seen within {seconds} s: {until}")
        waited = self.frames[begun:]
        self.frames[begun:] = waited[:: max(1, len(waited) // 6)]

    def save(self, path: Path, folder: Path | None) -> None:
        """Write the moving picture, and each frame into a folder if there is one."""
        pictures = []
        for number, (shot, _) in enumerate(self.frames):
            picture = Image.open(io.BytesIO(shot)).convert("RGB")
            picture = picture.resize((WIDTH, WIDTH * picture.height // picture.width), Image.Resampling.LANCZOS)
            if folder is not None:
                picture.save(folder / f"frame-{number:02}.png")
            pictures.append(picture.quantize(COLORS, dither=Image.Dither.NONE))
        times = [milliseconds for _, milliseconds in self.frames]
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True)


def main() -> int:
    """Run the wizard in a browser and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=Path, help="a folder for the single frames")
    folder = parser.parse_args().frames
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    record(TARGET, folder)
    size = TARGET.stat().st_size
    print(f"{TARGET.relative_to(ROOT)}: {size / 1e6:.2f} MB")
    return 0 if size <= MAX_BYTES else 1


def record(path: Path, folder: Path | None) -> None:
    """Start a server and a browser, play the scenes and write the picture."""
    sys.path.insert(0, str(ROOT))
    from tests.browser.conftest import CHROMIUM, FLAGS
    from tests.browser.jupyter import Notebook, Server

    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        server = Server.start(Path(home) / "jupyter")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            notebook = Notebook(browser.new_context(viewport=SIZE).new_page(), server, "lab", Path(home))
            notebook.open("my_training.ipynb", CELLS)
            hide_sidebars(notebook.page)
            film = Film(notebook.page)
            play(film, notebook)
            film.save(path, folder)
        finally:
            browser.close()
            server.stop()


def hide_sidebars(page: Page) -> None:
    """Give the notebook the whole window."""
    page.evaluate(
        """async () => {
          const { shell } = window.jupyterapp;
          shell.collapseLeft();
          shell.collapseRight();
        }"""
    )


def play(film: Film, notebook: object) -> None:
    """Run the cells, name the symptom, diagnose, and try the fix."""
    film.take(READING)
    notebook.run_cell(0)  # type: ignore[attr-defined]
    notebook.run_cell(1)  # type: ignore[attr-defined]
    wizard: Locator = notebook.output(1)  # type: ignore[attr-defined]
    button(wizard, DIAGNOSE).wait_for(timeout=120_000)
    show(wizard)
    film.take(READING)
    if (symptom := button(wizard, SYMPTOM)).count():
        symptom.click()
        film.page.wait_for_timeout(1000)
        show(wizard)
        film.take(READING)
    button(wizard, DIAGNOSE).click()
    film.follow(button(wizard, TRY_FIX))
    show(wizard)
    film.take(READING)
    button(wizard, TRY_FIX).click()
    film.follow(wizard.get_by_text(VERIFIED))
    film.page.wait_for_timeout(1500)
    show(wizard)
    film.take(READING)
    wizard.get_by_text(VERIFIED).locator("visible=true").first.evaluate(
        "node => node.scrollIntoView({block: 'center'})"
    )
    film.page.wait_for_timeout(500)
    film.take(2 * READING)


def button(wizard: Locator, name: re.Pattern[str]) -> Locator:
    """Return the first button of this name that can be seen."""
    return wizard.get_by_role("button", name=name).locator("visible=true").first


def show(wizard: Locator) -> None:
    """Scroll the wizard to the top of the window."""
    wizard.evaluate("node => node.scrollIntoView({ block: 'start' })")


if __name__ == "__main__":
    sys.exit(main())
