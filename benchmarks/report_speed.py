"""How long it takes to write the report of a model of a hundred layers in which every check found something.

The worst case: each check has a finding with a picture, and every one is drawn. Times are the median of several
rounds in one process, after a first round that also pays for the imports.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import chain, count
from pathlib import Path

import numpy as np

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Lines, Table, draw
from nbdebug.core.finding import Finding, Remedy, Result
from nbdebug.engine.explanation import list_checks
from nbdebug.report import Report

LAYERS = tuple(f"encoder.layers.{i}.attention.out" for i in range(100))
LIMIT = 3.0


def exhibits(seed: int) -> list[Exhibit]:
    """Make one exhibit of each kind that grows with the model."""
    rng = np.random.default_rng(seed)
    steps = tuple(float(i) for i in range(2000))
    counts = tuple(tuple(row) for row in rng.poisson(20, (100, 60)).astype(float).tolist())
    return [
        Bars(LAYERS, tuple(rng.lognormal(0, 3, 100).tolist()), "Norm by layer", "L2 norm", log=True, band=(1e-3, 10.0)),
        Lines(tuple((f"run {i}", steps, tuple(rng.normal(size=2000).tolist())) for i in range(3)), "Loss"),
        HistogramGrid(LAYERS, tuple(np.linspace(-3, 3, 61).tolist()), counts, "Activations by layer"),
        Table(("layer", "norm", "share"), tuple((layer, 0.5, 0.25) for layer in LAYERS), "Layers"),
    ]


def whole() -> Report:
    """Make a report in which every check found something."""
    drawn = chain.from_iterable(exhibits(seed) for seed in count())  # no two alike: what was drawn once is kept
    findings = [
        Finding(
            f"{check} was found in layer {LAYERS[i % 100]} with a value of {i / 7:.3f}.",
            LAYERS[i % 100],
            ("bug", "suspect", "note")[i % 3],
            {"value": i / 7, "threshold": 0.5, "source": "a published constant", "layers": list(LAYERS[:20])},
            (Remedy("Do this.", "model.layer = nn.Linear(10, 10)"), Remedy("Or that.", "x = x + y")),
            exhibit=next(drawn),
            check=check,
        )
        for i, check in enumerate(list_checks())
    ]
    return Report(findings, [Result(finding.check, "found", (finding,)) for finding in findings], seconds=60.0)


def main(rounds: int = 5) -> None:
    """Write every form and print times and sizes."""
    report = whole()
    print(f"{len(report.findings)} checks, each with a finding and an exhibit of a model of {len(LAYERS)} layers")
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("html", "ipynb", "json", "md", "sarif"):
            times, cpu = [], []
            for _ in range(rounds + 1):
                draw.forget()
                started, used = time.perf_counter(), time.process_time()
                path = report.save(Path(folder) / f"report.{ending}")
                times.append(time.perf_counter() - started)
                cpu.append(time.process_time() - used)
            typical = statistics.median(times[1:])
            print(
                f".{ending:6} {typical:6.2f} s (first {times[0]:.2f} s, processor {statistics.median(cpu[1:]):.2f} s), "
                f"{path.stat().st_size / 1e6:5.2f} MB{'' if typical <= LIMIT else f'  over {LIMIT} s'}"
            )


if __name__ == "__main__":
    main()
