"""Runs the quickstart notebook in a real kernel and shows what it found; the notebook stays as it is."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "example_notebooks" / "quickstart.ipynb"
OUTPUT = ROOT
LIVE = "application/vnd.jupyter.widget-view+json"
REPORTS = ("report.html", "report.ipynb")


def main() -> int:
    """Execute the notebook at the root of the checkout and say where its reports are."""
    for name in REPORTS:
        (OUTPUT / name).unlink(missing_ok=True)
    print(f"Running {shown(NOTEBOOK)} in a Jupyter kernel.\n", flush=True)
    started = time.perf_counter()
    if not run(nbformat.read(NOTEBOOK, as_version=4)):
        return 1
    print(f"\nFinished in {time.perf_counter() - started:.0f} s.")
    absent = [name for name in REPORTS if not (OUTPUT / name).is_file()]
    if absent:
        print(f"The notebook did not write {' and '.join(absent)}.", file=sys.stderr)
        return 1
    print("Reports:", *(f"  {shown(OUTPUT / name)}" for name in REPORTS), sep="\n")
    print("\nTo be guided through it in a notebook, open the wizard: make lab")
    return 0


def run(notebook: nbformat.NotebookNode) -> bool:
    """Execute every cell, print what each one showed, and say whether all of them ran."""
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # the kernel's own warnings are not what the demo is about
        resources={"metadata": {"path": str(OUTPUT)}},
        on_cell_executed=lambda cell, cell_index, execute_reply: show(cell),
    )
    try:
        client.execute()
    except CellExecutionError:
        print(f"A cell of {shown(NOTEBOOK)} failed:\n{tracebacks(notebook)}", file=sys.stderr)
        return False
    return True


def show(cell: nbformat.NotebookNode) -> None:
    """Print the text of a cell's outputs; progress bars and other messages on stderr are left out."""
    for output in cell.get("outputs", []):
        text = output_text(output).rstrip()
        if text:
            print(text, flush=True)


def output_text(output: dict[str, Any]) -> str:
    """Return one output as plain text; empty for a live widget, whose static form is an output of its own."""
    if output["output_type"] == "stream":
        return str(output["text"]) if output["name"] == "stdout" else ""
    data = output.get("data", {})
    return "" if LIVE in data else str(data.get("text/plain", ""))


def tracebacks(notebook: nbformat.NotebookNode) -> str:
    """Return the errors that the cells of a notebook ended with."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(line for output in outputs for line in output.get("traceback", []))


def shown(path: Path) -> str:
    """Return a path as the reader would type it."""
    return os.path.relpath(path)


if __name__ == "__main__":
    sys.exit(main())
