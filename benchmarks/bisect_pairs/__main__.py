"""Bisect every pair and write down what was named: `python -m benchmarks.bisect_pairs [--held-out] [NAME …]`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import nbdebug
from benchmarks.bisect_pairs import PAIRS, Pair, later, loops, tables, texts, vision

__all__ = ["main", "right", "run"]

assert all((later, loops, tables, texts, vision))  # imported for the pairs that they register


def run(pair: Pair) -> dict[str, Any]:
    """Bisect one pair."""
    begun = time.perf_counter()
    result = nbdebug.bisect(pair.good_setup, pair.bad_setup, metric=pair.metric, progress=False)
    cause = result.cause
    return {
        "pair": pair.name,
        "family": pair.family,
        "held_out": pair.is_held_out,
        "matters": sorted(pair.matters),
        "named": list(cause.names) if cause is not None else [],
        "parts": [part.name for part in cause.parts] if cause is not None else [],
        "also": [cause.text for cause in result.also],
        "outcome": result.outcome,
        "says": result.says,
        "differences": [row.name for row in result.differences.rows],
        "steps": result.steps,
        "training_steps": result.training_steps,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def right(row: dict[str, Any]) -> bool:
    """Whether the first name is one that matters, or nothing is named where nothing does."""
    return row["named"][0] in row["matters"] if row["named"] else not row["matters"]


def main() -> None:
    """Run the pairs asked for, print a line for each, and add them to a file of JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--developed", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    chosen = [
        pair
        for pair in PAIRS
        if (not options.names or pair.name in options.names)
        and not (options.held_out and not pair.is_held_out)
        and not (options.developed and pair.is_held_out)
    ]
    rows = []
    for pair in chosen:
        row = run(pair)
        rows.append(row)
        mark = "right" if right(row) else "WRONG"
        print(f"{mark} {row['pair']}: {row['outcome']} {row['named']} also {row['also']} ({row['training_steps']} "
              f"steps, {row['seconds']} s)\n      {row['says']}", flush=True)  # fmt: skip
        if options.write:
            with options.write.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print(f"{sum(map(right, rows))} of {len(rows)} right")


if __name__ == "__main__":
    main()
