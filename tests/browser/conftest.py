"""Fixtures for tests that drive JupyterLab and Notebook 7 in Chromium.

Ask for ``notebook`` and call ``notebook.open(name, cells)``; the test then runs once in each front end. Every
test in this folder is marked ``browser`` and is skipped where Chromium is missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.jupyter import Front, Notebook, Server
from tests.browser.pages import new_page

CHROMIUM = shutil.which("chromium")
# No sandbox, because CI runs as root; the rest keeps Chromium from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
HERE = Path(__file__).parent
# Playwright's own five seconds are too short where kernels, a browser and other tests share two cores.
expect.set_options(timeout=30_000)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.browser)
        # One worker runs them all, so that one server and one browser are started.
        item.add_marker(pytest.mark.xdist_group("browser"))
        if CHROMIUM is None:
            item.add_marker(pytest.mark.skip(reason="no Chromium: the program `chromium` is not on the PATH"))


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    grouped = any(item.nodeid.endswith("@browser") for item in request.session.items)
    assert grouped or request.config.getoption("dist", "no") != "loadgroup", "this xdist keeps no group together"
    running = Server.start(tmp_path_factory.mktemp("jupyter") / "home")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for screenshots: a temporary one, or the one that ``NBDEBUG_SHOTS`` names."""
    wanted = os.environ.get("NBDEBUG_SHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(params=["lab", "notebook"])
def front(request: pytest.FixtureRequest) -> Front:
    chosen: Front = request.param
    return chosen


@pytest.fixture
def notebook(server: Server, browser: Browser, front: Front, shots: Path) -> Iterator[Notebook]:
    """A new page; whatever it wrote to the console as an error, or asked of another host, fails the test."""
    with new_page(server, browser, front, shots) as opened:
        yield opened
