"""Run one call in a child process: its output is captured, its time is limited, and nothing of it is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from nbdebug.core.processes import kill_tree
from nbdebug.integrations.mcp.stacks import innermost, of_the_project

__all__ = ["Tail", "run_child"]

WORKER = "nbdebug.integrations.mcp.worker"
GRACE = 10.0  # seconds that a child has to write down what it has, once its time is over
LOOK = 0.3  # seconds between two looks for progress
KEPT = 8000  # characters of the program's output that are told

Listener = Callable[[float, str], Awaitable[None]]


class Tail:
    """The end of what a program writes, whatever the length of the whole is."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Take in more."""
        self._held += data
        if len(self._held) > 8 * KEPT:
            self.dropped += len(self._held) - 4 * KEPT
            del self._held[: -4 * KEPT]

    def __str__(self) -> str:
        """Return the last characters, and say how many bytes came before them."""
        text = self._held.decode("utf-8", "replace")
        left = self.dropped + len(text[:-KEPT].encode()) if len(text) > KEPT else self.dropped
        return f"… ({left:,} bytes before)\n{text[-KEPT:]}" if left else text


async def run_child(root: Path, job: Mapping[str, Any], limit: float, listen: Listener) -> dict[str, Any]:
    """Run a job and return the worker's answer; a crash, an exit or the end of the time is an answer, too.

    However this ends, also by a cancellation, every process that the child has started is ended.
    """
    started, tail = time.monotonic(), Tail()
    with tempfile.TemporaryDirectory(prefix="nbdebug-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps({**job, "limit": limit, "root": str(root)}), encoding="utf-8")
        process = await _started(root, folder)
        try:
            timed_out = await _followed(process, folder, tail, limit, listen)
        finally:
            with anyio.CancelScope(shield=True):
                await _ended(process)
        answer = _read(folder / "answer.json") or _silent(process.returncode or 0, timed_out, limit, folder, root)
    return {**answer, "output": str(tail), "seconds": round(time.monotonic() - started, 2)}


async def _started(root: Path, folder: Path) -> anyio.abc.Process:
    environment = {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1", **os.environ, "PYTHONIOENCODING": "utf-8"}
    return await anyio.open_process(
        [sys.executable, "-m", WORKER, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=root,
        env=environment,
        start_new_session=True,
    )


async def _followed(process: anyio.abc.Process, folder: Path, tail: Tail, limit: float, listen: Listener) -> bool:
    """Wait for the end of the process, or of its time; return whether the time was over."""
    timed_out = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_drained, process, tail)
        tasks.start_soon(_heard, folder / "progress", listen)
        with anyio.move_on_after(limit):
            await process.wait()
        if process.returncode is None:
            timed_out = True
            await _asked_to_end(process)
        kill_tree(process.pid)  # who still holds the pipe
        with anyio.move_on_after(1.0):
            await process.wait()
            await anyio.sleep(0.1)  # for the last of its output
        tasks.cancel_scope.cancel()
    return timed_out


async def _asked_to_end(process: anyio.abc.Process) -> None:
    """Interrupt the child as Ctrl-C does, and once more if it hangs in the user's code."""
    for wait in (0.4 * GRACE, 0.6 * GRACE):
        with suppress(ProcessLookupError, ValueError):
            process.send_signal(signal.SIGINT)
        with anyio.move_on_after(wait):
            await process.wait()
            return


async def _drained(process: anyio.abc.Process, tail: Tail) -> None:
    assert process.stdout is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for data in process.stdout:
            tail.add(data)


async def _heard(path: Path, listen: Listener) -> None:
    """Pass progress on: one line for each, of which only the newest matters."""
    told = ""
    while True:
        await anyio.sleep(LOOK)
        with suppress(OSError, ValueError):
            text = path.read_text(encoding="utf-8")
            if text and text != told:
                told, news = text, json.loads(text)
                await listen(float(news["done"]), str(news["text"]))


async def _ended(process: anyio.abc.Process) -> None:
    kill_tree(process.pid)
    with anyio.move_on_after(5):
        await process.wait()
    await process.aclose()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer


def _silent(code: int, timed_out: bool, limit: float, folder: Path, root: Path) -> dict[str, Any]:
    """Return the answer for a child that gave none: it hung, was killed, or ended itself past Python."""
    stack = ""
    with suppress(OSError):
        stack = (folder / "stacks").read_text(encoding="utf-8", errors="replace")
    known = {"place": innermost(stack, root), "traceback": of_the_project(stack, root)}
    if timed_out:
        says = f"The program did not end within {limit:.0f} s and was killed."
        return {"status": "timed out", "error": {"type": "TimeoutError", "message": says, **known}}
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        memory = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        says = f"The process was killed by the signal {name}{memory}."
        return {"status": "crashed", "error": {"type": name, "message": says, **known}}
    says = f"The program ended the process with exit code {code}."
    return {"status": "exited", "error": {"type": "exit", "message": says, **known}}
