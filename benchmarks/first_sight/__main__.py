"""Diagnose every program of a round, each in a process of its own, and write what was said.

    python -m benchmarks.first_sight round_2 --out results.jsonl
    python -m benchmarks.first_sight round_1 --only gan --markdown

Programs around libraries that are not installed are left out and listed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.first_sight import TRIALS, Trial
from benchmarks.outcomes import Outcome, from_json, read

MARK = "OUTCOME "
TIMEOUT = 900.0  # seconds for one program, on a busy machine; none should come near


def load(round_name: str) -> list[Trial]:
    """Import the programs of a round; name what cannot be imported here."""
    package = importlib.import_module(f"benchmarks.first_sight.{round_name}")
    for module in pkgutil.iter_modules(package.__path__):
        try:
            importlib.import_module(f"{package.__name__}.{module.name}")
        except ImportError as error:
            print(f"left out: {module.name} ({error})", file=sys.stderr)
    return TRIALS


def outcome_of(trial: Trial, variant: str) -> Outcome:
    """Diagnose one program in this process."""
    import numpy as np
    import torch

    import nbdebug

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0), random.seed(0), np.random.seed(0)  # noqa: NPY002
    setup, started = trial.made(variant), time.perf_counter()
    report = nbdebug.diagnose(
        **setup, effort="thorough", progress=False
    )  # what was said must not depend on the machine
    is_faulty = variant == "faulty"
    return Outcome(
        "unseen" if is_faulty else "healthy",
        trial.name if is_faulty else "",
        trial.name if not is_faulty else "",
        0,
        accepted=trial.accepted if is_faulty else (),
        places=(trial.where,) if is_faulty and trial.where else None,
        findings=tuple((f.check, f.severity, f.where, f.says) for f in report.findings),
        crashed=tuple(f"{r.check}: {r.reason}" for r in report.results if r.status == "crashed"),
        seconds=round(time.perf_counter() - started, 1),
    )


def in_a_process(round_name: str, trial: Trial, variant: str) -> Outcome:
    """Diagnose one program in a process of its own; a hang or a crash is an outcome, too."""
    command = [sys.executable, "-m", "benchmarks.first_sight", round_name, "--one", trial.name, variant]
    named = ("unseen", trial.name, "", 0) if variant == "faulty" else ("healthy", "", trial.name, 0)
    try:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=env, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(*named, accepted=trial.accepted, error=f"no answer in {TIMEOUT:.0f} s")
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return from_json(line.removeprefix(MARK))
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return Outcome(*named, accepted=trial.accepted, error=(said[-1] if said else "no output")[:300])


def summary(outcomes: list[Outcome]) -> str:
    """Return the counts: named, named first, alarmed."""
    faulty = [o for o in outcomes if o.group == "unseen"]
    sound = [o for o in outcomes if o.group == "healthy"]
    judged = [o for o in faulty if not o.error]
    return (
        f"faulty: {sum(o.detected for o in judged)} of {len(faulty)} named, {sum(o.within(1) for o in judged)} first, "
        f"{sum(not o.alarms for o in judged)} silent, {sum(bool(o.error) for o in faulty)} without an answer; "
        f"sound: {sum(bool(o.alarms) for o in sound)} of {len(sound)} alarmed, "
        f"{sum(bool(o.error) for o in sound)} without an answer; "
        f"crashed checks: {sum(len(o.crashed) for o in outcomes)}"
    )


def main() -> None:
    """Run a round."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_sight", description=__doc__)
    parser.add_argument("round", help="round_1 to round_6")
    parser.add_argument("--only", default="", help="only programs whose name or variant contains this")
    parser.add_argument("--out", type=Path, help="a file of lines of JSON; programs that it holds are left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", nargs=2, metavar=("NAME", "VARIANT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    trials = load(options.round)
    if options.one:
        name, variant = options.one
        trial = next(trial for trial in trials if trial.name == name)
        print(MARK + json.dumps(asdict(outcome_of(trial, variant))))
        return
    known = read([options.out]) if options.out and options.out.exists() else []
    done = {(o.group, o.fault or o.host) for o in known}
    jobs = [
        (trial, variant)
        for trial in trials
        for variant in trial.variants
        if options.only in f"{trial.name} {variant}"
        and ("unseen" if variant == "faulty" else "healthy", trial.name) not in done
    ]
    outcomes = list(known)

    def one(job: tuple[Trial, str]) -> None:
        outcome = in_a_process(options.round, *job)
        outcomes.append(outcome)
        said = "; ".join(f"{severity} {check} @ {where}" for check, severity, where, _ in outcome.alarms)
        print(f"{job[0].name} [{job[1]}] {outcome.seconds:.0f} s: {outcome.error or said or 'silent'}", flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, jobs))
    print(summary(outcomes))


if __name__ == "__main__":
    main()
