"""Runs the example notebooks and the ten lines of README.md, and stores what they show (`make outputs`).

The notebooks run in a real kernel. What a widget showed is left out, and so is what went to stderr, such as progress;
the static form beside it stays, which anybody can read, on GitHub as well. Times are those of this
machine: let it rest.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "example_notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
README = ROOT / "README.md"
TEN_LINES = re.compile(
    r"<!-- example -->\n```python\n(?P<code>.*?)```.*?<!-- output -->\n```\n(?P<output>.*?)```", re.DOTALL
)
LIVE = "application/vnd.jupyter.widget-view+json"


def main() -> int:
    """Store the outputs of what is named, or of everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="README, quickstart, images, …; everything if none is named")
    names = parser.parse_args().names or ["README", *sorted(path.stem for path in FOLDER.glob("*.ipynb"))]
    for name in names:
        print(f"Running {name}.", flush=True)
        if name == "README":
            store_readme()
        else:
            store(FOLDER / f"{name}.ipynb")
    return 0


def store_readme() -> None:
    """Put what the ten lines print below them."""
    text = README.read_text(encoding="utf-8")
    example = TEN_LINES.search(text)
    assert example is not None
    printed = subprocess.run([sys.executable, "-c", example["code"]], stdout=subprocess.PIPE, text=True, check=True)
    begin, end = example.span("output")
    README.write_text(f"{text[:begin]}{printed.stdout.rstrip()}\n{text[end:]}", encoding="utf-8")


def store(path: Path) -> None:
    """Run one notebook elsewhere, so that what it writes is not left here, and keep its static outputs."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = [kept for output in cell.outputs if (kept := static(output)) is not None]
    nbformat.write(notebook, path)


def static(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    """Return what of an output can be shown without a kernel."""
    if output.get("name") == "stderr":
        return None
    data = output.get("data", {})
    if output.output_type == "display_data" and not any(data.values()):  # where progress was
        return None
    if data.pop(LIVE, None) is not None and set(data) <= {"text/plain"}:
        return None
    return output


if __name__ == "__main__":
    sys.exit(main())
