"""Builds the front end into the package whenever a wheel, an editable install or an sdist is made.

A missing or failing Node must never stop an installation: the custom views then fall back to plain
ipywidgets, the JupyterLab extension is left out, and this hook says so, as the views do when they are first shown.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EXTENSION = "js/lab/built/nbdebug"
TIMEOUT = 600  # seconds for each npm command: a registry out of reach must not hang an installation


class FrontEndHook(BuildHookInterface[Any]):
    """Runs npm in js/ before the files of the package are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the front end unless it is there already."""
        root = Path(self.root)
        if os.environ.get("NBDEBUG_SKIP_JS"):
            print("nbdebug: NBDEBUG_SKIP_JS is set, so the front end is not built.", file=sys.stderr)
            return
        if not is_fresh(root) and (problem := build(root / "js")):
            say(
                f"nbdebug: {problem} The front end was not built: the custom views will fall back to plain "
                "ipywidgets, and JupyterLab gets no extension. Everything else works."
            )
        if (root / EXTENSION / "package.json").is_file() and self.target_name == "wheel":
            build_data["shared_data"][EXTENSION] = "share/jupyter/labextensions/nbdebug"


def build(js: Path) -> str:
    """Run npm in ``js`` and return what went wrong, or nothing."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "Node.js (20 or newer, with npm) was not found on the PATH."
    # What checks the sources is not needed to build them; a developer who has it keeps it.
    is_clean = not (js / "node_modules").exists()
    environment = os.environ | ({"NPM_CONFIG_OMIT": "dev"} if is_clean else {})
    for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        command = [npm, *arguments]
        try:
            done = subprocess.run(
                command, cwd=js, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"`npm {arguments[0]}` did not finish: {error}."
        if done.returncode:
            sys.stderr.write(done.stdout.decode(errors="replace")[-4000:])
            return f"`npm {' '.join(arguments)}` failed with exit code {done.returncode}."
    return ""


def is_fresh(root: Path) -> bool:
    """Return whether every bundle is there and none is older than any source of the front end."""
    if missing(root):
        return False
    if (root / "PKG-INFO").is_file():
        return True  # an unpacked sdist brings its bundle along; its file times say nothing
    js = root / "js"
    folders = [js / "src", *(js / "lab" / name for name in ("src", "style", "schema"))]
    sources = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    sources += [js / "lab" / name for name in ("build.mjs", "package.json", "install.json")]
    sources += [js / name for name in ("package.json", "package-lock.json", "build.mjs", "styles.mjs")]
    newest = max(path.stat().st_mtime for path in sources if path.is_file())
    return all(path.stat().st_mtime >= newest for path in bundles(root))


def missing(root: Path) -> list[Path]:
    """Return the files of the front end that ought to be in the package and are not."""
    return [path for path in bundles(root) if not path.is_file()]


def bundles(root: Path) -> list[Path]:
    """Return what js/build.mjs makes: a file for each script and style sheet in js/src/views, and the extension."""
    static = root / "nbdebug" / "widgets" / "static"
    suffixes = {".ts": ".js", ".css": ".css"}
    views = sorted((root / "js" / "src" / "views").iterdir())
    made = [static / (view.stem.replace("-", "_") + suffixes[view.suffix]) for view in views if view.suffix in suffixes]
    return [*made, root / EXTENSION / "package.json"]


def say(message: str) -> None:
    """Write to stderr, and to the terminal where stderr is not one: pip hides what a good build writes."""
    print(message, file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        with contextlib.suppress(OSError), Path("/dev/tty").open("w") as terminal:
            print(f"\n{message}", file=terminal)
