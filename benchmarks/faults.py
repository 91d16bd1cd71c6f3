"""The fault benchmark: how many faults are found, how well they are named, and how often nothing is called something.

It runs `nbdebug.diagnose` on every failing example of every check, on mutants (healthy set-ups of the zoo with one
fault put in), on faulty set-ups written apart from the checks (`tests/unseen/`) and on the healthy set-ups themselves,
and prints what came of it. From the root of the project:

    python -m benchmarks.faults --quick
    python -m benchmarks.faults --each 4 --seeds 5 --markdown docs/benchmark.md
    python -m benchmarks.faults --groups mutant --each 1 --verify --named-only
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.outcomes import Outcome, read
from benchmarks.tables import as_markdown, as_text

LIMIT = "NBDEBUG_FAULTS_SECONDS"  # for one run, also in other processes; what is not found by then counts as missed


@dataclass(frozen=True)
class Job:
    """One run: what kind it is, which fault and host, and the seed."""

    group: str
    fault: str
    host: str
    seed: int
    verify: bool = False
    named_only: bool = False


def run(job: Job) -> Outcome:
    """Run one job in this process."""
    import torch

    import nbdebug

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started, named = time.perf_counter(), (job.group, job.fault, job.host, job.seed)
    try:
        setup, accepted, places = _made(job)
        chosen = accepted if job.named_only and accepted else None
        report = nbdebug.diagnose(**setup, checks=chosen, progress=False, time_limit=_limit())
        seconds = time.perf_counter() - started
        remedies = _tried(report, accepted) if job.verify else ()
    except Exception as error:
        return Outcome(*named, error=f"{type(error).__name__}: {error}"[:300])
    return Outcome(
        *named,
        accepted=accepted,
        places=places,
        findings=tuple((f.check, f.severity, f.where, f.says) for f in report.findings),
        crashed=tuple(f"{r.check}: {r.reason}" for r in report.results if r.status == "crashed"),
        seconds=seconds,
        remedies=remedies,
    )


def _tried(report: Any, accepted: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    """Try the remedies of the first finding that names the root cause, in their order until one verifies."""
    named = [finding for finding in report.alarms if finding.check in accepted]
    if not named or not any(remedy.verifiable for remedy in named[0].remedies):
        return ()
    named[0].verify(progress=False, time_limit=_limit())
    return tuple((one.remedy.patch.name, one.verdict, one.says) for one in named[0].verifications)


def _limit() -> float:
    return float(os.environ.get(LIMIT, "120"))


def _made(job: Job) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...] | None]:
    """Return the set-up of a job, the checks that name its fault, and the places."""
    import torch

    from tests.examples import all_failing_examples, all_healthy
    from tests.mutants import Mutant, all_faults
    from tests.unseen import all_unseen

    if job.group == "mutant":
        host = next(healthy for healthy in all_healthy() if healthy.name == job.host)
        fault = next(fault for fault in all_faults() if fault.kind == job.fault)
        setup, places = Mutant(fault, host).make(job.seed)
        return setup, fault.accepted, places
    torch.manual_seed(job.seed)
    if job.group == "unseen":
        stranger = next(u for u in all_unseen() if u.name == job.host)
        return stranger.make(), stranger.accepted, stranger.where
    if job.group == "healthy":
        return next(healthy for healthy in all_healthy() if healthy.name == job.host).make(), (), None
    failing_example = next(p for p in all_failing_examples() if (p.check, p.name) == (job.fault, job.host))
    where = (failing_example.where,) if isinstance(failing_example.where, str) else failing_example.where
    return failing_example.make(), (failing_example.check,), where


def jobs(options: argparse.Namespace) -> list[Job]:
    """List what there is to run."""
    from tests.examples import all_failing_examples, all_healthy
    from tests.mutants import all_mutants
    from tests.unseen import all_unseen

    found: list[Job] = []
    groups = options.groups
    if "failing example" in groups:
        found += [Job("failing example", p.check, p.name, 0) for p in all_failing_examples()]
    if "unseen" in groups:
        found += [Job("unseen", "", u.name, 0) for u in all_unseen()]
    if "healthy" in groups:
        found += [Job("healthy", "", h.name, seed) for seed in range(options.seeds) for h in all_healthy()]
    if "mutant" in groups:
        kinds = [f"{m.fault.kind}@{m.host.name}" for m in all_mutants(options.each, options.only)]
        found += [Job("mutant", *kind.split("@"), seed) for kind in kinds for seed in range(options.mutant_seeds)]
    found = [job for job in found if options.only in f"{job.group}:{job.fault}@{job.host}"]
    return [replace(job, verify=options.verify, named_only=options.named_only) for job in found]


def run_all(todo: list[Job], workers: int) -> Iterable[Outcome]:
    """Run the jobs, in other processes where more than one is asked for."""
    if workers == 1:
        yield from map(run, todo)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(run, todo, chunksize=4)


def options_from(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one mutant of each kind, one seed")
    parser.add_argument("--each", type=int, default=4, help="how many set-ups each fault is put into (0: all it fits)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each healthy set-up")
    parser.add_argument("--mutant-seeds", type=int, default=1, help="seeds of each mutant")
    parser.add_argument(
        "--groups", nargs="+", default=["failing example", "unseen", "healthy", "mutant"], help="what to run"
    )
    parser.add_argument("--only", default="", help="only runs whose name (group:fault@host) holds this text")
    parser.add_argument("--verify", action="store_true", help="try the remedies of what was found on a copy")
    parser.add_argument("--named-only", action="store_true", help="run only the checks that name the fault: quicker")
    parser.add_argument("--workers", type=int, default=1, choices=(1, 2))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one run; more on a busy machine")
    parser.add_argument("--json", type=Path, help="write every outcome here, one a line, as it comes")
    parser.add_argument("--resume", action="store_true", help="leave out what the file of --json already holds")
    parser.add_argument("--read", type=Path, nargs="+", help="run nothing: make the tables from what --json wrote")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--trials", type=Path, nargs="+", default=[], help="files of --json: blind trials to show too")
    parser.add_argument("--peers", type=Path, help="what `benchmarks.peers --summary` wrote, to show too")
    options = parser.parse_args(arguments)
    if options.quick:
        options.each, options.seeds = 1, 1
    options.each = options.each or None
    return options


def _left(todo: list[Job], options: argparse.Namespace) -> list[Job]:
    """Return the jobs that an earlier, broken run has not done."""
    if not options.resume or not options.json or not options.json.exists():
        return todo
    done = {(o.group, o.fault, o.host, o.seed) for o in read([options.json])}
    return [job for job in todo if (job.group, job.fault, job.host, job.seed) not in done]


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its tables."""
    options = options_from(arguments)
    os.environ[LIMIT] = str(options.limit)
    outcomes = read(options.read) if options.read else []
    if not options.read:
        todo = _left(jobs(options), options)
        for number, outcome in enumerate(run_all(todo, options.workers), 1):
            outcomes.append(outcome)
            print(f"\r{number} of {len(todo)}: {outcome.name[:70]:70}", end="", file=sys.stderr, flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
        print(file=sys.stderr)
    if options.resume and options.json:
        outcomes = read([options.json])
    print(as_text(outcomes))
    if options.markdown:
        peers = json.loads(options.peers.read_text()) if options.peers else None
        trials = [read([path]) for path in options.trials]
        options.markdown.write_text(as_markdown(outcomes, trials, peers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
