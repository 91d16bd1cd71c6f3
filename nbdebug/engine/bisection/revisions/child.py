"""Run one job about revisions in a process of its own; nothing of it is left running, however this ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbdebug.core.processes import kill_tree
from nbdebug.errors import BadInput

__all__ = ["Hear", "Stopped", "run"]

WORKER = "nbdebug.engine.bisection.revisions.worker"
GRACE = 5.0  # seconds that a child has to write down what it has, once it is told to end
LOOK = 0.1

Hear = Callable[[float, str], None]


class Stopped(Exception):
    """The child was stopped by the user or by the time; `answer` is what it had by then."""

    def __init__(self, answer: dict[str, Any], why: str) -> None:
        super().__init__(why)
        self.answer = answer


def run(job: Mapping[str, Any], hear: Hear, *, end: float) -> dict[str, Any]:
    """Return the answer; a crash of the program is one. Ctrl-C and the end of the time raise `Stopped`."""
    with TemporaryDirectory(prefix="nbdebug-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        left = end - time.monotonic()
        limit = None if left == float("inf") else max(left, 0.1)
        (folder / "job.json").write_text(json.dumps({**job, "time_limit": limit}), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(folder)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal comes here first, and from here to the child
        )
        try:
            why = _followed(process, folder, hear, end)
            answer = _answer(folder, process)
        except KeyboardInterrupt:
            why = "interrupted"
            _asked_to_end(process)
            answer = _answer(folder, process)
        finally:
            kill_tree(process.pid)
            process.wait()
    if answer["status"] == "refused":
        raise BadInput(answer["seen"], where=answer["where"], expected=answer["expected"], do=answer["do"])
    if why or answer["status"] == "stopped":
        raise Stopped(answer, why or str(answer.get("message", "")))
    return answer


def _followed(process: subprocess.Popen[bytes], folder: Path, hear: Hear, end: float) -> str:
    """Wait for the end of the process and pass its progress on; return why it was stopped, if it was."""
    told = ""
    while process.poll() is None:
        time.sleep(LOOK)
        with suppress(OSError, ValueError):
            text = (folder / "progress").read_text(encoding="utf-8")
            if text and text != told:
                told, news = text, json.loads(text)
                hear(float(news["fraction"]), str(news["text"]))
        if time.monotonic() > end + GRACE:  # it ends by itself where it is able to
            _asked_to_end(process)
            return "the time limit was reached"
    return ""


def _asked_to_end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the child as Ctrl-C does, and once more if it hangs in the user's code."""
    for wait in (0.6 * GRACE, 0.4 * GRACE):
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait)
            return


def _answer(folder: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"status": "failed", "message": _death(process.returncode)}
    return answer


def _death(code: int | None) -> str:
    if code is None:
        return "The process did not end."
    if code < 0:
        return f"The process was killed by the signal {signal.Signals(-code).name}."
    return f"The program ended its process with exit code {code}."
