"""A page of its own for a test, or for all tests of a file; whatever goes wrong in it fails them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from nbdebug.engine.decision_tree import TREE
from tests.browser.jupyter import EXTENSION, Front, Notebook, Server


def step_named(name: str) -> re.Pattern[str]:
    """Return a pattern for the step with this id, whether its label or its question is shown."""
    step = next(step for stage in TREE for step in stage.steps if step.id == name)
    return re.compile(f"{re.escape(step.label)}|{re.escape(step.question)}")


@contextmanager
def new_page(server: Server, browser: Browser, front: Front, shots: Path) -> Iterator[Notebook]:
    """Open a page; at its end its kernels are stopped, settings are set back, and its console is free of errors."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = Notebook(context.new_page(), server, front, shots)
    yield opened
    context.close()
    server.set_theme("JupyterLab Light")
    if EXTENSION.is_dir():
        server.set_settings("nbdebug:plugin", {})
    server.stop_kernels()
    complain(opened)


def complain(opened: Notebook) -> None:
    """Fail if the page wrote an error to the console, or asked another host for anything; each is told once."""
    errors, opened.errors = opened.errors, []
    foreign, opened.foreign = opened.foreign, []
    assert not errors, "errors in the browser's console:\n" + "\n".join(errors)
    assert not foreign, "requests to other hosts:\n" + "\n".join(foreign)
