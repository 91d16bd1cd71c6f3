"""The same faults, shown to other tools of the field, each called as its own README says.

Run it in an environment of its own that holds the peers, the same torch, and this project's dependencies:

    pip install torchtest2 torch-audit preflight-ml torchdiag neural-net-checklist torcheck torch==2.13.0
    python -m benchmarks.peers --each 2 --json peers.jsonl

A peer *detects* a fault if it says something (a failure, a warning, an exception) that it does not say about the
healthy version of the same set-up with the same seed; what it says need not name the cause. Whatever it says about a
healthy set-up is a false alarm. A run that takes longer than the limit counts as silent.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from benchmarks.peers_said import PEERS
from benchmarks.tables import peers_table
from tests.examples import all_healthy
from tests.mutants import all_mutants


def versions() -> dict[str, str]:
    """Return the peers that are installed here, with their versions."""
    found = {}
    for name in PEERS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


PACKAGES = versions()


class TooLong(Exception):
    """A peer did not come to an end."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Stop what takes too long."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def said(peer: Callable[[dict[str, Any]], set[str]], setup: dict[str, Any], seconds: int) -> set[str]:
    """Return what a peer says about a set-up; an exception counts as said, by its kind."""
    torch.manual_seed(0)
    try:
        with limited(seconds), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return peer(setup)
    except TooLong:
        return set()
    except Exception as error:
        return {f"raised {type(error).__name__}: {re.sub(r'[0-9.e+-]+', '#', str(error))[:80]}"}


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run every peer on every healthy set-up and every mutant."""
    peers = [name for name in PACKAGES if name in (options.peers or PACKAGES)]
    done = _done(options)
    healthy = {(peer, host): words for (peer, group, _, host), words in done.items() if group == "healthy"}
    for host in all_healthy():
        for name in peers:
            if (name, host.name) in healthy:
                continue
            torch.manual_seed(0)
            started = time.perf_counter()
            words = healthy[name, host.name] = said(PEERS[name], host.make(), options.seconds)
            seconds = time.perf_counter() - started
            yield _row(name, "healthy", "", host.name, words, seconds)
    for mutant in all_mutants(options.each, options.only):
        for name in peers:
            if (name, "mutant", mutant.fault.kind, mutant.host.name) in done:
                continue
            started = time.perf_counter()
            words = said(PEERS[name], mutant.make()[0], options.seconds) - healthy[name, mutant.host.name]
            seconds = time.perf_counter() - started
            yield _row(name, "mutant", mutant.fault.kind, mutant.host.name, words, seconds)


def _done(options: argparse.Namespace) -> dict[tuple[str, str, str, str], set[str]]:
    """Return what an earlier, broken run has said already."""
    if not options.resume or not options.json or not options.json.exists():
        return {}
    rows = [json.loads(line) for line in options.json.read_text().splitlines()]
    return {(row["peer"], row["group"], row["fault"], row["host"]): set(row["said"]) for row in rows}


def _row(peer: str, group: str, fault: str, host: str, words: set[str], seconds: float) -> dict[str, Any]:
    return {"peer": peer, "group": group, "fault": fault, "host": host, "said": sorted(words), "seconds": seconds}


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the documentation shows: for each peer its version, how many faults it saw, and its false alarms."""
    peers = []
    for peer in sorted({row["peer"] for row in found}):
        mine = [row for row in found if row["peer"] == peer]
        sick, well = ([row for row in mine if row["group"] == group] for group in ("mutant", "healthy"))
        peers.append(
            {
                "peer": f"{peer} {PACKAGES.get(peer, '')}".strip(),
                "faults": len(sick),
                "detected": sorted(f"{row['fault']}@{row['host']}" for row in sick if row["said"]),
                "healthy": len(well),
                "false alarms": sum(bool(row["said"]) for row in well),
                "seconds": statistics.median(row["seconds"] for row in mine),
            }
        )
    return {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__.split("+")[0], "peers": peers}


def main(arguments: list[str]) -> int:
    """Run the peers and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--each", type=int, default=1, help="how many set-ups each fault is put into")
    parser.add_argument("--only", default="", help="only mutants whose name holds this text")
    parser.add_argument("--peers", nargs="+", help="only these")
    parser.add_argument("--seconds", type=int, default=60, help="the limit of one run")
    parser.add_argument("--json", type=Path, help="write every row here, one a line, as it comes")
    parser.add_argument("--resume", action="store_true", help="leave out what the file of --json already holds")
    parser.add_argument("--summary", type=Path, help="write here what `benchmarks.faults --peers` puts on its page")
    parser.add_argument("--read", type=Path, help="run nothing: make the table from what --json wrote")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.read:
        found = [json.loads(line) for line in options.read.read_text().splitlines()]
        return _end(summary(found), options)
    found = []
    for row in rows(options):
        found.append(row)
        print(
            f"\r{len(found)}: {row['peer']} on {row['fault']}@{row['host']}"[:100].ljust(100), end="", file=sys.stderr
        )
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
    if options.json:
        found = [json.loads(line) for line in options.json.read_text().splitlines()]
    return _end(summary(found), options)


def _end(result: dict[str, Any], options: argparse.Namespace) -> int:
    if options.summary:
        options.summary.write_text(json.dumps(result, indent=1) + "\n")
    print(peers_table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
