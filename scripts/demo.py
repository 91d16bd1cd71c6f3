"""Runs the quickstart notebook in a real kernel, prints the cause, the fix and its proof, and writes the reports."""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "example_notebooks" / "quickstart.ipynb"
OUTPUT = ROOT
REPORTS = ("report.html", "report.ipynb")


def main() -> int:
    """Execute the notebook at the root of the checkout, and print what was found and where the reports are."""
    for name in REPORTS:
        (OUTPUT / name).unlink(missing_ok=True)
    print(f"{shown(NOTEBOOK)}: a network trains without an error and does not learn. Running it …", flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "report.json"
        if not run(nbformat.read(NOTEBOOK, as_version=4), data):
            return 1
        absent = [name for name in REPORTS if not (OUTPUT / name).is_file()]
        if absent:
            print(f"The notebook did not write {' and '.join(absent)}.", file=sys.stderr)
            return 1
        print("\n".join(["", *sentences(data), ""]))
    page = OUTPUT / REPORTS[0]
    print(f"Finished in {time.perf_counter() - started:.0f} s. The whole report, for a browser:\n  {page.as_uri()}")
    print(f"and as a notebook: {shown(OUTPUT / REPORTS[1])}")
    print("To be guided through the same in the wizard: make lab, then run quickstart.ipynb")
    return 0


def run(notebook: nbformat.NotebookNode, data: Path) -> bool:
    """Execute every cell, then keep the report as data; say whether all of that ran."""
    notebook.cells.append(nbformat.v4.new_code_cell(f"report.save({str(data)!r})"))
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # the kernel's own warnings are not what the demo is about
        resources={"metadata": {"path": str(OUTPUT)}},
    )
    try:
        client.execute()
    except CellExecutionError:
        print(f"A cell of {shown(NOTEBOOK)} failed:\n{tracebacks(notebook)}", file=sys.stderr)
        return False
    return True


def sentences(data: Path) -> list[str]:
    """Return the three sentences that matter: what is wrong and where, the fix, and what came of it on a copy."""
    import nbdebug

    cause = nbdebug.load(data).findings[0]
    proven = [str(one) for one in cause.verifications if one.verified]
    fix = next((one.remedy for one in cause.verifications if one.verified), cause.remedies[0])
    said = {"Cause": f"{cause.says} ({cause.check})", "Fix": fix.says, "On a copy": "; ".join(proven)}
    return [
        line
        for name, text in said.items()
        for line in textwrap.wrap(f"{name + ':':<11}{text}", 100, subsequent_indent=" " * 11)
    ]


def tracebacks(notebook: nbformat.NotebookNode) -> str:
    """Return the errors that the cells of a notebook ended with."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(line for output in outputs for line in output.get("traceback", []))


def shown(path: Path) -> str:
    """Return a path as the reader would type it."""
    return os.path.relpath(path)


if __name__ == "__main__":
    sys.exit(main())
