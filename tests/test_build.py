"""The package is built with its front end where Node is at hand, and without it where it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("nbdebug", "js", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE")
STATIC = "nbdebug/widgets/static"
EXTENSION = "js/lab/built/nbdebug"
BUNDLE = {f"{STATIC}/stage_tree.js", f"{STATIC}/stage_tree.css"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a wheel is built from, as a fresh clone has it: without anything built."""
    leave = shutil.ignore_patterns("node_modules", "static", "built", "__pycache__")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part, ignore=leave)
        else:
            shutil.copy(ROOT / part, tmp_path / part)
    return tmp_path


def wheel(tree: Path, path: str, **more: str) -> tuple[set[str], str]:
    """Build a wheel with this PATH; return the names of its files and what was printed."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."]
    done = subprocess.run(command, cwd=tree, env=os.environ | {"PATH": path} | more, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (tree / "out").glob("*.whl")
    return set(zipfile.ZipFile(made).namelist()), done.stdout + done.stderr


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def fake_node(folder: Path, script: str) -> str:
    """Return a PATH on which npm is this script."""
    program(folder, "node", "exit 0")
    program(folder, "npm", script)
    return f"{folder}:/usr/bin:/bin"


def test_without_node_the_wheel_is_built_and_says_what_is_missing(tree: Path) -> None:
    names, said = wheel(tree, path=str(tree / "nowhere"))
    assert not names & BUNDLE
    assert "nbdebug/widgets/stage_tree.py" in names
    assert "Node.js (20 or newer, with npm) was not found" in said
    assert "fall back to plain ipywidgets" in said


def test_when_npm_fails_the_wheel_is_built_all_the_same(tree: Path) -> None:
    names, said = wheel(tree, fake_node(tree / "bin", "echo the registry is out of reach; exit 7"))
    assert not names & BUNDLE
    assert "the registry is out of reach" in said
    assert "`npm ci --no-audit --no-fund` failed with exit code 7" in said


def test_what_npm_builds_is_in_the_wheel(tree: Path) -> None:
    build = f"mkdir -p ../{STATIC} && touch ../{STATIC}/stage_tree.js ../{STATIC}/stage_tree.css"
    names, said = wheel(tree, fake_node(tree / "bin", f'[ "$1" = ci ] || {{ {build}; }}'))
    assert names >= BUNDLE
    assert "fall back" not in said


def test_the_extension_is_where_jupyterlab_looks_and_not_in_the_package_as_well(tree: Path) -> None:
    build = f"mkdir -p ../{EXTENSION}/static && touch ../{EXTENSION}/package.json ../{EXTENSION}/static/entry.js"
    names, _ = wheel(tree, fake_node(tree / "bin", f'[ "$1" = ci ] || {{ {build}; }}'))
    of_extension = {name for name in names if name.endswith(("/package.json", "/entry.js"))}
    assert {name.split(".data/", 1)[-1] for name in of_extension} == {
        "data/share/jupyter/labextensions/nbdebug/package.json",
        "data/share/jupyter/labextensions/nbdebug/static/entry.js",
    }


def installed(tree: Path) -> Path:
    """Install the wheel of this tree into a new environment, and return its Python; what it needs is borrowed."""
    home = tree / "env"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (made,) = (tree / "out").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(made)]
    subprocess.run(pip, check=True, capture_output=True)
    (folder,) = (home / "lib").glob("python*/site-packages")  # only now: pip must not see what is installed here
    (folder / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])
    return python


def test_jupyterlab_accepts_the_extension_of_an_installed_wheel(tree: Path) -> None:
    assert (ROOT / EXTENSION).is_dir(), "the extension is not built; run `make front`"
    build = f'mkdir -p ../js/lab/built && cp -r "{ROOT / EXTENSION}" ../js/lab/built/'
    wheel(tree, fake_node(tree / "bin", f'[ "$1" = ci ] || {{ {build}; }}'))
    homes = {"JUPYTER_DATA_DIR": str(tree / "data"), "JUPYTER_CONFIG_DIR": str(tree / "config")}
    command = [str(installed(tree)), "-m", "jupyterlab.labextensions", "list"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | homes
    done = subprocess.run(command, cwd=tree / "out", env=environment, capture_output=True, text=True, check=True)
    folder, listed = (done.stdout + done.stderr).split(str(tree / "env/share/jupyter/labextensions"), 1)
    assert "nbdebug " not in folder
    (line,) = [line for line in listed.splitlines() if line.strip().startswith("nbdebug ")]
    assert "enabled" in line and "OK" in line and "nbdebug-torch" in line


@pytest.mark.parametrize("older", [False, True], ids=["fresh", "stale"])
def test_npm_runs_only_for_a_bundle_older_than_its_sources(tree: Path, older: bool) -> None:
    views = [path for path in (tree / "js/src/views").iterdir() if path.suffix in (".ts", ".css")]
    every = {f"{STATIC}/{path.stem.replace('-', '_')}{path.suffix.replace('.ts', '.js')}" for path in views}
    for name in (*every, f"{EXTENSION}/package.json"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
        os.utime(tree / name, (0, 0) if older else None)
    names, said = wheel(tree, fake_node(tree / "bin", "exit 7"))
    assert names >= BUNDLE
    assert ("failed with exit code 7" in said) is older


def test_a_variable_skips_the_front_end(tree: Path) -> None:
    names, said = wheel(tree, fake_node(tree / "bin", "exit 7"), NBDEBUG_SKIP_JS="1")
    assert not names & BUNDLE
    assert "NBDEBUG_SKIP_JS is set" in said
    assert "exit code 7" not in said


def test_the_lock_file_names_no_download_address() -> None:
    assert '"resolved"' not in (ROOT / "js/package-lock.json").read_text("utf-8")
