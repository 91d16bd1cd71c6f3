"""The report in a terminal: color where it is one, every line within its width."""

import os
import pty
import subprocess
import sys

import pytest
from rich.cells import cell_len

from nbdebug.report.terminal import as_text
from tests.report.hostile import hostile
from tests.report.payloads import PAYLOADS
from tests.report.samples import healthy, small

SHOW = "import sys; sys.path.insert(0, '.'); from tests.report.samples import small; small().show()"


@pytest.mark.parametrize("width", [60, 100])
def test_every_line_fits(width: int) -> None:
    text = as_text(small(), width)
    assert max(map(cell_len, text.splitlines())) <= width
    for part in (
        "softmax-before-cross-entropy",
        "head.1",
        "nn.Linear(64, 10)",
        "cannot-overfit-batch",
        "skipped",
        "crashed",
    ):
        assert part in text, part


def test_plain_text_has_no_escapes_whatever_the_report_holds() -> None:
    text = as_text(hostile([p for p in PAYLOADS if len(p) < 1000]))
    assert "\x1b" not in text and "\u202e" not in text and "\x9b" not in text


def test_rich_markup_of_the_user_is_text() -> None:
    assert "[bold red]x[/]" in as_text(hostile(["[bold red]x[/]"]))


def test_a_healthy_report_is_short() -> None:
    assert len(str(healthy()).splitlines()) <= 4


def test_color_only_where_it_is_a_terminal() -> None:
    piped = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout
    assert "\x1b[" not in piped and "softmax-before-cross-entropy" in piped
    reader, writer = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"} | {"NO_COLOR": ""}
    environment.pop("NO_COLOR")
    with subprocess.Popen([sys.executable, "-c", SHOW], stdout=writer, env=environment) as process:
        os.close(writer)
        shown = b""
        try:
            while chunk := os.read(reader, 65536):
                shown += chunk
        except OSError:  # Linux ends a pty so
            pass
    os.close(reader)
    assert process.returncode == 0 and b"\x1b[" in shown
