"""A real Jupyter server and a notebook opened in a real browser, as the browser tests see them.

One server process serves both front ends, JupyterLab under /lab and Notebook 7 under /notebooks; a `Front`
says which of them opens a notebook.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import ConsoleMessage, Error, Locator, Page, Request

EXTENSION = Path(__file__).parents[2] / "js" / "lab" / "built" / "nbdebug"
Front = Literal["lab", "notebook"]
Theme = Literal["JupyterLab Light", "JupyterLab Dark"]

# `reset` keeps JupyterLab from opening what the test before had open; Notebook 7 has no such memory.
ADDRESSES: dict[Front, str] = {
    "lab": "{url}/lab/tree/{name}?token={token}&reset",
    "notebook": "{url}/notebooks/{name}?token={token}",
}
START_SECONDS = 60
# What a front end itself throws on a blank notebook, before any widget is shown.
NOISE: dict[Front, tuple[str, ...]] = {
    "lab": (),
    "notebook": (
        "Cannot read properties of undefined (reading 'schema')",
        "Command 'filebrowser:open-path' not registered.",
    ),
}
# Without it a notebook opens a dialog that asks for a kernel and blocks every click.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass
class Server:
    """A running server with a folder of its own; nothing of the user's Jupyter set-up is read or written."""

    home: Path
    process: subprocess.Popen[bytes]
    url: str
    token: str

    @classmethod
    def start(cls, home: Path) -> Server:
        """Start a server whose settings, notebooks and log all lie in ``home``."""
        root = home / "notebooks"
        root.mkdir(parents=True)
        if EXTENSION.is_dir():  # of this checkout, whatever the environment has installed
            shutil.copytree(EXTENSION, home / "data" / "labextensions" / "nbdebug")
        port, token = _free_port(), secrets.token_hex(16)
        with (home / "server.log").open("wb") as log:
            process = subprocess.Popen(
                _command(root, port, token), cwd=root, env=_environment(home), stdout=log, stderr=log
            )
        server = cls(home, process, f"http://127.0.0.1:{port}", token)
        try:
            server._wait_until_up()
            _quiet(server)
        except BaseException:
            server.stop()
            raise
        return server

    def stop(self) -> None:
        """Stop the server and the kernels that it started."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def write(self, name: str, cells: Sequence[str]) -> str:
        """Write a notebook of code cells into the server's folder and return its name."""
        notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata=METADATA)
        nbformat.write(notebook, self.home / "notebooks" / name)
        return name

    def address(self, name: str, front: Front) -> str:
        """Return the address that opens a notebook in this front end."""
        return ADDRESSES[front].format(url=self.url, name=name, token=self.token)

    def set_theme(self, theme: Theme) -> None:
        """Choose the theme of every page that is opened from now on."""
        self.set_settings("@jupyterlab/apputils-extension:themes", {"theme": theme})

    def stop_kernels(self) -> None:
        """Shut down every kernel, so that one test leaves nothing running for the next."""
        for session in json.loads(self._ask("api/sessions")):
            self._ask(f"api/sessions/{session['id']}", "DELETE")

    def set_settings(self, plugin: str, settings: dict[str, Any]) -> None:
        """Set what a plugin reads on every page that is opened from now on."""
        self._ask(f"lab/api/settings/{plugin}", "PUT", {"raw": json.dumps(settings)})

    @contextmanager
    def without_extension(self, name: str) -> Iterator[None]:
        """Disable an extension on every page that is opened meanwhile, as `jupyter labextension disable` does."""
        config = self.home / "config" / "labconfig" / "page_config.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps({"disabledExtensions": {name: True}}))
        try:
            yield
        finally:
            config.unlink()

    def settings(self, plugin: str) -> dict[str, Any]:
        """Return what a plugin's settings are now, with its defaults."""
        found: dict[str, Any] = json.loads(self._ask(f"lab/api/settings/{plugin}"))
        return dict(found["settings"])

    def _ask(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return bytes(answer.read())

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self._ask("api/status")
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        log = (self.home / "server.log").read_text(errors="replace")
        raise RuntimeError(f"The Jupyter server did not come up within {START_SECONDS} s:\n{log[-4000:]}")


def _command(root: Path, port: int, token: str) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *(f"--ServerApp.root_dir={root}", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"),
        *("--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *("--ServerApp.disable_check_xsrf=True", "--ServerApp.terminals_enabled=False"),
        *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"),
    ]


def _environment(home: Path) -> dict[str, str]:
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    # In a virtual environment Jupyter looks there first, unless it is told otherwise.
    own = {name: str(home / folder) for name, folder in folders.items()} | {"JUPYTER_PREFER_ENV_PATH": "0"}
    return os.environ | own


def _quiet(server: Server) -> None:
    """Switch off what would ask or fetch something in the middle of a test."""
    silence = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    server.set_settings("@jupyterlab/apputils-extension:notification", silence)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Notebook:
    """One notebook in one browser page, with everything that went wrong there."""

    page: Page
    server: Server
    front: Front
    shots: Path
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(60_000)  # milliseconds; a machine that runs other tests as well is slow
        self.page.on("console", self._on_console)
        self.page.on("pageerror", self._on_error)
        self.page.on("request", self._on_request)

    def open(self, name: str, cells: Sequence[str]) -> None:
        """Write a notebook, open it and wait until its kernel can run cells."""
        self.page.goto(self.server.address(self.server.write(name, cells), self.front))
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.wait_for_idle()

    def reopen(self, name: str, *, trusted: bool) -> None:
        """Save the notebook, end its kernel, and open it again, as it is or as if it came from somebody else."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        folder = self.server.home / "notebooks"
        saved = nbformat.read(folder / name, as_version=4)
        assert any(cell.outputs for cell in saved.cells), "nothing was saved"
        self.server.stop_kernels()
        if not trusted:  # any change makes the server's signature void
            saved.metadata["from"] = "somebody else"
            name = f"foreign-{name}"
            nbformat.write(saved, folder / name)
        self.page.goto(self.server.address(name, self.front))
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.wait_for_idle()

    def run_all(self) -> None:
        """Run every cell and wait until the kernel has nothing more to do."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.wait_for_idle()

    def run_cell(self, index: int) -> None:
        """Run one cell, counted from 0, and wait until the kernel has nothing more to do."""
        self.page.evaluate(
            """async (index) => {
              window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
              await window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            index,
        )
        self.wait_for_idle()

    def begin_cell(self, index: int) -> None:
        """Run one cell, counted from 0, and do not wait for it."""
        self.page.evaluate("index => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = index; }", index)
        self.start_command("notebook:run-cell")

    def start_command(self, command: str) -> None:
        """Run a command of the front end and do not wait for it."""
        self.page.evaluate("command => { void window.jupyterapp.commands.execute(command); }", command)

    def execute(self, code: str) -> None:
        """Run code in the kernel without a cell, so that focus stays where it is in the page."""
        kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        self.page.evaluate(f"code => {kernel}.requestExecute({{ code }}).done.then(() => null)", code)

    def wait_for_settings(self, plugin: str, **wanted: Any) -> None:
        """Wait until the settings editor has saved these values."""
        for _ in range(600):
            settings = self.server.settings(plugin)
            if all(settings.get(name) == value for name, value in wanted.items()):
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"the settings were not saved: {settings}")

    def reload(self) -> None:
        """Load the page again while its kernel goes on."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        self.page.reload()
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")

    def wait_for_idle(self, seconds: float = 60) -> None:
        """Wait until the kernel is connected and idle."""
        self.page.wait_for_function(
            """() => {
              const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
              return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
            }""",
            timeout=1000 * seconds,
        )

    def cell(self, index: int) -> Locator:
        """Return a cell, counted from 0."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """Return the outputs of a cell, counted from 0."""
        return self.cell(index).locator(".jp-OutputArea").first

    def scroll_to(self, index: int) -> None:
        """Scroll to a cell, counted from 0; those that are far away are not drawn."""
        self.page.evaluate(
            """async (index) => {
              const content = window.jupyterapp.shell.currentWidget.content;
              content.activeCellIndex = index;
              await content.scrollToItem(index, 'start');
            }""",
            index,
        )

    def screenshot(self, name: str) -> Path:
        """Save a picture of the page and return where it lies."""
        path = self.shots / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_error(self, error: Error) -> None:
        if error.message not in NOISE[self.front]:
            self.errors.append(error.stack or error.message)

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.foreign.append(request.url)
