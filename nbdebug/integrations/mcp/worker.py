"""The child process of one call: load the program, do what was asked, write the answer into the job's folder."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbdebug.core.journal import Event
from nbdebug.core.processes import end_with_parent, kill_descendants
from nbdebug.errors import NbdebugError
from nbdebug.integrations.mcp.stacks import described_error

__all__ = ["main"]

SPARE = 0.85  # of the time that is left belongs to the run, the rest to the answer
TIMED_OUT = "The time limit was reached while the program ran."


def main(folder: Path) -> None:
    """Do one job. The process ends without waiting for threads of the program."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    stacks = (folder / "stacks").open("w", encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(folder / "ipython")  # nothing of the user's home is read or written
    faulthandler.enable(stacks)
    faulthandler.dump_traceback_later(job["limit"], file=stacks)  # where it hangs, should it not end
    end_with_parent()
    answer = answered(job, _Telling(folder / "progress"), time.monotonic() + job["limit"])
    partial = folder / "answer.partial"
    partial.write_text(json.dumps(answer), encoding="utf-8")
    partial.replace(folder / "answer.json")
    sys.stdout.flush()
    sys.stderr.flush()
    kill_descendants(os.getpid())
    os._exit(0)


def answered(job: Mapping[str, Any], hear: Callable[[Event], None], end: float) -> dict[str, Any]:
    """Return the answer; whatever the program does is one."""
    root = Path(job["root"])
    try:
        return _TOOLS[job["tool"]](job, root, hear, end)
    except SystemExit as error:
        said = described_error(error, root)
        return {"status": "exited", "error": {**said, "message": f"The program called sys.exit({error.code!r})."}}
    except KeyboardInterrupt as error:
        said = described_error(error, root)
        return {"status": "timed out", "error": {**said, "type": "TimeoutError", "message": TIMED_OUT}}
    except NbdebugError as error:
        cause = described_error(error.__cause__, root) if error.__cause__ is not None else None
        if cause is not None and cause["place"] is not None:
            return _crashed(error.__cause__ or error, root)
        return {"status": "refused", "error": described_error(error, root)}
    except BaseException as error:
        return _crashed(error, root)


def _crashed(error: BaseException, root: Path) -> dict[str, Any]:
    """Describe an exception of the program, with what nbdebug knows of such errors."""
    described = described_error(error, root)
    try:
        from nbdebug.engine.explain_error import explain_error

        known = explain_error(error)
        described["explanation"] = str(known) if known.kind else ""
    except Exception:
        described["explanation"] = ""  # it is an extra
    return {"status": "crashed", "error": described}


def _diagnose(job: Mapping[str, Any], root: Path, hear: Callable[[Event], None], end: float) -> dict[str, Any]:
    import nbdebug
    from nbdebug.core.control import limit_for
    from nbdebug.integrations.mcp.loading import load

    setup, notes = load(job["target"])
    left = SPARE * (end - time.monotonic())
    options = {key: job[key] for key in ("effort", "checks", "skip", "symptom", "seed") if job.get(key) is not None}
    allowed = min(left, limit_for(job.get("effort", "normal"), None) or left)
    report = nbdebug.diagnose(**{**setup, **options}, time_limit=max(allowed, 1.0), progress=hear)
    report.notes.extend(notes)
    return _told(report, job, root)


def _watch_report(job: Mapping[str, Any], root: Path, hear: Callable[[Event], None], end: float) -> dict[str, Any]:
    import nbdebug

    return _told(nbdebug.watch.load(job["recording"]).report(), job, root)


def _told(report: Any, job: Mapping[str, Any], root: Path) -> dict[str, Any]:
    from nbdebug.integrations.mcp.structured import pictures_of, structured

    samples = bool(job.get("include_samples"))
    answer = structured(report, root, include_samples=samples)
    pictures = pictures_of(report, include_samples=samples) if job.get("pictures") else []
    return {**answer, "pictures": pictures, "report": report.to_dict()}


def _verify(job: Mapping[str, Any], root: Path, hear: Callable[[Event], None], end: float) -> dict[str, Any]:
    import inspect

    import nbdebug
    from nbdebug.core.finding import Finding
    from nbdebug.integrations.mcp.loading import load
    from nbdebug.integrations.mcp.structured import verified
    from nbdebug.setup import Setup

    arguments, _ = load(job["target"])
    known = inspect.signature(Setup).parameters
    setup = {name: value for name, value in arguments.items() if name in known}
    finding = Finding.from_dict(job["finding"])
    fix = None if job.get("fix") is None else job["fix"] - 1
    left = max(SPARE * (end - time.monotonic()), 1.0)
    one = nbdebug.verify(finding, **setup, remedy=fix, seed=job.get("seed") or 0, time_limit=left, progress=hear)
    return verified(finding, one, pictures=bool(job.get("pictures")))


def _bisect(job: Mapping[str, Any], root: Path, hear: Callable[[Event], None], end: float) -> dict[str, Any]:
    from nbdebug.core.control import Control
    from nbdebug.integrations.mcp.bisecting import bisected

    left = max(SPARE * (end - time.monotonic()), 1.0)
    tell = Control(time_limit=left, on_progress=lambda done, text: hear(Event("progress", "bisect", done, text)))
    return bisected(job, root, tell)


_TOOLS = {"bisect": _bisect, "diagnose": _diagnose, "verify": _verify, "watch_report": _watch_report}


class _Telling:
    """A listener that writes the newest event into a file, at most a few times a second."""

    def __init__(self, path: Path) -> None:
        self._path, self._done, self._told = path, 0, 0.0

    def __call__(self, event: Event) -> None:
        self._done += event.kind == "result"
        if time.monotonic() - self._told < 0.3 or not (event.text or event.name):
            return
        self._told = time.monotonic()
        text = event.text or event.name
        self._path.write_text(json.dumps({"done": self._done, "text": text[:200]}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
