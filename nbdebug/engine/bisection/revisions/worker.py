"""The child process of a bisection over revisions: make one revision, measure it, or exchange parts of two."""

from __future__ import annotations

import faulthandler
import hashlib
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbdebug.core.control import Control
from nbdebug.core.processes import end_with_parent, kill_descendants
from nbdebug.engine.bisection.course import Course, Courses, Metric
from nbdebug.engine.bisection.gate import PATIENCE, has_learned, train, train_good
from nbdebug.engine.bisection.given import Given
from nbdebug.engine.bisection.mixing import EVERYTHING
from nbdebug.errors import BadInput, NbdebugError
from nbdebug.sandbox import guarded
from nbdebug.setup.user_code import is_users_class, methods_of

__all__ = ["main"]

Made = Callable[[], Any]


def main(folder: Path) -> None:
    """Do one job and write its answer. The process ends without waiting for threads of the program."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    faulthandler.enable((folder / "stacks").open("w", encoding="utf-8"))
    os.dup2(2, 1)  # what the program prints is no part of the answer
    sys.stdout = sys.stderr
    end_with_parent()
    control = Control(time_limit=job["time_limit"], on_progress=_Told(folder / "progress"))
    answer = _answered(job, control)
    partial = folder / "answer.partial"
    partial.write_text(json.dumps(answer), encoding="utf-8")
    partial.replace(folder / "answer.json")
    sys.stderr.flush()
    kill_descendants(os.getpid())
    os._exit(0)


def _answered(job: Mapping[str, Any], control: Control) -> dict[str, Any]:
    """Return the answer; whatever the program does is one."""
    try:
        return {"status": "done", **_JOBS[job["do"]](job, control)}
    except BadInput as error:
        return {
            "status": "refused",
            **{name: str(getattr(error, name)) for name in ("seen", "where", "expected", "do")},
        }
    except (KeyboardInterrupt, NbdebugError) as error:
        return {"status": "stopped", "message": str(error) or "interrupted"}
    except SystemExit as error:
        return {"status": "failed", "message": f"The program called sys.exit({error.code!r})."}
    except Exception as error:
        return {"status": "failed", "message": f"{type(error).__name__}: {error}"}


def _make(job: Mapping[str, Any], control: Control) -> dict[str, Any]:
    """Make one revision by itself, so that what is wrong with it is not taken for a fault of loading two."""
    from nbdebug.engine.bisection.given import given

    given(_alone(job, job["entry"]), job["side"], control)
    return {}


def _measure(job: Mapping[str, Any], control: Control) -> dict[str, Any]:
    """Train one revision by itself, as the gate does, and return how far it comes."""
    from nbdebug.engine.bisection.given import given

    side = given(_alone(job, job["entry"]), job["side"], control)
    return measured(side, job, _metric(job, lambda: _alone(job, job["metric"])), control)


def _exchange(job: Mapping[str, Any], control: Control) -> dict[str, Any]:
    """Import both revisions side by side and bisect them."""
    from nbdebug.engine.bisection.bisecting import bisect
    from nbdebug.engine.bisection.given import given
    from nbdebug.engine.bisection.revisions.side_by_side import Tree, installed
    from nbdebug.setup.source_locations import name_folder

    trees = {side: Tree(f"nbdebug_{side}", _folders(at)) for side, at in job["trees"].items()}
    installed(list(trees.values()), Path(job["root"]))
    for at in job["trees"].values():
        name_folder(Path(at["tree"]), at["name"])
    entries = {side: _beside(trees[side], job["trees"][side], job["entry"]) for side in trees}
    metric = _metric(job, lambda: _attribute(trees["bad"].load, job["metric"]))
    sides = [given(entries[side], side, control) for side in ("good", "bad")]
    return {"bisection": bisect(*sides, metric=metric, steps=job["steps"], progress=False, control=control).to_dict()}


_JOBS = {"make": _make, "measure": _measure, "exchange": _exchange}


def _beside(tree: Any, at: Mapping[str, str], entry: str) -> Made:
    """Return a function that imports and calls the entry point in the folder of its revision."""

    def make() -> Any:
        os.chdir(at["folder"])
        return _attribute(tree.load, entry)()

    return make


def _alone(job: Mapping[str, Any], entry: str) -> Made:
    """Return a function that calls the entry point of the only revision, imported as Python does."""

    def load(module: str) -> Any:
        os.chdir(job["at"]["folder"])
        missing = [folder for folder in map(str, _folders(job["at"])) if folder not in sys.path]
        sys.path[:0] = missing
        found = importlib.import_module(module)
        file = getattr(found, "__file__", None)
        if file is None or not Path(file).resolve().is_relative_to(job["at"]["tree"]):
            raise ImportError(f"the module {module!r} is {file or 'a part of Python'}, and not of this revision")
        return found

    def call(*given: Any) -> Any:
        return _attribute(load, entry)(*given)

    return call


def _folders(at: Mapping[str, str]) -> list[Path]:
    return [Path(at["folder"]), Path(at["folder"]) / "src"]


def _attribute(load: Callable[[str], Any], entry: str) -> Any:
    module, _, path = entry.partition(":")
    found = load(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _metric(job: Mapping[str, Any], load: Callable[[], Any]) -> Any:
    """Return the user's metric, of the bad revision; it is looked up before anything is trained."""
    return load() if job.get("metric") else None


class _Told:
    """Writes progress into a file, a few times a second."""

    def __init__(self, path: Path) -> None:
        self._path, self._last = path, 0.0

    def __call__(self, fraction: float, text: str) -> None:
        if time.monotonic() - self._last > 0.3:
            self._last = time.monotonic()
            self._path.write_text(json.dumps({"fraction": fraction, "text": text}), encoding="utf-8")


SEEDS = (0, 1)


def measured(side: Given, job: Mapping[str, Any], metric: Metric | None, control: Control) -> dict[str, Any]:
    """Train a revision from two random starts.

    Without a goal in the job this is the good revision, which says how many steps are taken and what counts as learned.
    """
    courses = Courses(side, side, control, metric, has_schedule=side.setup.scheduler is not None)
    courses.ends = tuple(job["ends"]) if job.get("ends") else None
    look = _first if job.get("goal") is None else _against
    found: dict[str, Any] = guarded(lambda: look(courses, job), side.live_parts, control)
    return {**found, "program": _program(side), "training_steps": courses.steps}


def _first(courses: Courses, job: Mapping[str, Any]) -> dict[str, Any]:
    """Train the good revision until it stands still, or another one for as many steps."""

    def tell(text: str) -> None:
        courses.control.progress(0.0, text)

    course = courses.begin(EVERYTHING)
    if course.failure:
        return _told(course, courses, learns=False)
    steps: int | None = job.get("steps")
    if steps is None or courses.ends is None:
        steps = train_good(courses, course, steps, tell)
    else:
        train(course, steps, tell, job["side"])
    return {**_told(course, courses, learns=has_learned(course)), "steps": steps}


def _against(courses: Courses, job: Mapping[str, Any]) -> dict[str, Any]:
    """Train a revision until it reaches the goal, or three times as long, from each start."""
    runs: list[Course] = []
    for seed in SEEDS:
        course = courses.begin(EVERYTHING, seed)
        train(
            course, PATIENCE * job["steps"], lambda text: courses.control.progress(0.0, text), job["name"], job["goal"]
        )
        runs.append(course)
        if course.failure:
            break
    verdicts = [run.is_alive and run.skill >= job["goal"] for run in runs]
    return {**_told(runs[0], courses, learns=all(verdicts)), "agree": len(set(verdicts)) == 1}


def _told(course: Course, courses: Courses, *, learns: bool) -> dict[str, Any]:
    value, skill = course.value, course.skill
    return {
        "learns": learns,
        "value": value if math.isfinite(value) else None,
        "skill": skill,
        "measure": course.measure,
        "failure": course.failure,
        "ends": list(courses.ends) if courses.ends is not None else None,
    }


def _program(side: Given) -> str:
    """Return a digest of the code of the loss and the step: losses are only compared where it is the same."""
    setup, digest = side.setup, hashlib.sha256()
    for part in (setup.loss_fn, setup.compute_loss, setup.train_step):
        kind = type(part)
        functions = [part, *(function for _, function in methods_of(kind))] if is_users_class(kind) else [part]
        digest.update(f"{kind.__qualname__} {part if not callable(part) else ''}".encode())
        for function in functions:
            code = getattr(function, "__code__", None)
            if code is not None:
                consts = [const for const in code.co_consts if not hasattr(const, "co_code")]
                digest.update(code.co_code + repr((code.co_names, consts)).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
