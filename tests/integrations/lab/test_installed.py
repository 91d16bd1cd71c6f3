"""What a wheel installs is what JupyterLab accepts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbdebug

BUILT = Path(__file__).parents[3] / "js" / "lab" / "built" / "nbdebug"


def test_jupyterlab_lists_the_extension_as_ok(tmp_path: Path) -> None:
    assert BUILT.is_dir(), "the extension is not built; run `make front`"
    shutil.copytree(BUILT, tmp_path / "share" / "labextensions" / "nbdebug")
    homes = {"JUPYTER_DATA_DIR": str(tmp_path / "share"), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    command = [sys.executable, "-m", "jupyter", "labextension", "list"]
    done = subprocess.run(command, env=os.environ | homes, capture_output=True, text=True, timeout=120, check=False)
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if line.strip().startswith("nbdebug ")]
    assert "OK" in line and f"v{nbdebug.__version__}" in line and "nbdebug-torch" in line


def test_the_extension_has_the_version_of_the_package() -> None:
    assert json.loads((BUILT / "package.json").read_text())["version"] == nbdebug.__version__
