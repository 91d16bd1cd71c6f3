"""An error of torch is explained under its traceback: each kind, and the last error only."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.jupyter import Notebook
from tests.browser.lab import PATIENCE, call, explaining
from tests.failing import FAILURES, PREPARE


def test_each_kind_of_error_is_offered_to_be_explained(notebook: Notebook) -> None:
    notebook.open(f"errors-{notebook.front}.ipynb", [PREPARE, *(failure.code for failure in FAILURES)])
    notebook.run_cell(0)
    for index, failure in enumerate(FAILURES, 1):
        notebook.run_cell(index)
        explaining(notebook.cell(index)).click(timeout=PATIENCE)
        explanation = notebook.output(index).locator(".nbdebug-error")
        for words in failure.said:
            expect(explanation).to_contain_text(words, timeout=PATIENCE)
        expect(explaining(notebook)).to_have_count(0)
    notebook.screenshot(f"lab-errors-{notebook.front}")


def test_only_the_last_error_is_offered_and_only_under_its_own_cell(notebook: Notebook) -> None:
    shape, *_, assertion = FAILURES
    cells = [PREPARE, shape.code, "1 + 1", assertion.code, "1 / 0", "2 + 2"]
    notebook.open(f"last-error-{notebook.front}.ipynb", cells)
    notebook.start_command("notebook:run-all-cells")
    expect(explaining(notebook.cell(1))).to_be_visible(timeout=PATIENCE)
    notebook.wait_for_idle()
    expect(explaining(notebook)).to_have_count(1)  # and none in the cells that were not run because of it
    notebook.run_cell(3)
    expect(explaining(notebook.cell(3))).to_be_visible(timeout=PATIENCE)
    expect(explaining(notebook)).to_have_count(1)  # the kernel has only this error left to explain
    notebook.run_cell(1)
    expect(explaining(notebook.cell(1))).to_be_visible(timeout=PATIENCE)
    call(notebook, "Explain the Last Error")
    expect(notebook.output(1)).to_contain_text(shape.said[0], timeout=PATIENCE)
    notebook.run_cell(4)
    expect(notebook.output(4)).to_contain_text("ZeroDivisionError")
    expect(explaining(notebook)).to_have_count(0)  # nothing of torch's failed
