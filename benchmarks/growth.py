"""How the cost of a diagnosis grows: in training steps of the same program and in memory, over three sizes.

    python -m benchmarks.growth [--axes modules,parameters,samples] [--efforts quick] [--draw]

Each point is a process of its own, so that its peak memory is its own. Steps and diagnosis are measured in processor
time of the same process, so that a busy machine slows both alike; a quick diagnosis has no limit of time here, for the
same reason. Writes the figures into benchmarks/results/growth.json and draws them into docs/images; `--draw` only draws
what was measured before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from benchmarks.large_setups import SlowSamples, deep_model
from benchmarks.memory import peak_bytes, reset_peak

RESULTS = Path("benchmarks/results/growth.json")
IMAGES = Path("docs/images")
BATCH, WARM, TIMED = 32, 3, 10
TIME_OUT = 900  # seconds of a process that measures one point; one that takes longer is missing from the picture


@dataclass
class Program:
    """A training whose size can be chosen."""

    model: nn.Module
    loader: DataLoader[Any]


def with_modules(size: int) -> Program:
    """Return a residual network of about `size` modules."""
    return Program(*deep_model(blocks=max(1, round(size / 4) - 1)))


def with_parameters(size: int) -> Program:
    """Return three layers with about `size` parameters."""
    width = round((size / 2) ** 0.5)
    model = nn.Sequential(
        nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 2),
    )  # fmt: skip
    inputs = torch.randn(2048, 20)
    return Program(model, DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), BATCH, shuffle=True))


def with_samples(size: int) -> Program:
    """Return a small network on `size` samples that are read one by one, 3 ms each."""
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    return Program(model, DataLoader(SlowSamples(size), BATCH, shuffle=True))


@dataclass(frozen=True)
class Axis:
    """One way for a program to be large."""

    make: Callable[[int], Program]
    sizes: tuple[int, ...]
    title: str


AXES = {
    "modules": Axis(with_modules, (10, 100, 1000), "modules of the model"),
    "parameters": Axis(with_parameters, (10**4, 10**5, 10**6, 10**7, 10**8), "parameters of the model"),
    "samples": Axis(with_samples, (10**3, 10**5, 10**7), "samples of the data set, 3 ms each"),
}


def train(program: Program, optimizer: torch.optim.Optimizer, steps: int) -> float:
    """Take training steps, loading included, and return the processor seconds of one of them."""
    batches, loss_fn = iter(program.loader), nn.CrossEntropyLoss()
    begun = time.process_time()
    for _ in range(steps):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        loss_fn(program.model(inputs), targets).backward()
        optimizer.step()
    return (time.process_time() - begun) / steps


def measure(axis: str, size: int, effort: nbdebug.core.control.Effort) -> dict[str, Any]:
    """Measure one point in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    small = with_parameters(100)
    nbdebug.diagnose(small.model, small.loader, nn.CrossEntropyLoss(), progress=False, effort="quick")  # imports
    program = AXES[axis].make(size)
    optimizer = torch.optim.Adam(program.model.parameters(), 1e-4)
    train(program, optimizer, WARM)
    reset_peak()
    before = train(program, optimizer, TIMED)
    training_peak = peak_bytes()
    begun = time.process_time()
    report = nbdebug.diagnose(
        program.model, program.loader, nn.CrossEntropyLoss(), optimizer, progress=False, effort=effort,
        time_limit=TIME_OUT if effort == "quick" else None,
    )  # fmt: skip
    seconds, peak = time.process_time() - begun, peak_bytes()
    step = (before + train(program, optimizer, TIMED)) / 2
    return {
        "axis": axis,
        "size": size,
        "effort": effort,
        "modules": sum(1 for _ in program.model.modules()),
        "parameters": sum(p.numel() for p in program.model.parameters()),
        "step": step,
        "steps": seconds / step,
        "parameter bytes": sum(p.numel() * p.element_size() for p in program.model.parameters()),
        "training peak": training_peak,
        "peak": peak,
        "stopped": report.stopped,
        "dearest": {probe: round(spent / step, 1) for probe, spent in list(report.timings.items())[:8]},
        "alarms": [finding.check for finding in report.alarms],
    }


def in_a_process(axis: str, size: int, effort: str) -> dict[str, Any] | None:
    """Measure one point in a process of its own; None where it did not end in time."""
    command = [sys.executable, "-m", "benchmarks.growth", "--point", axis, str(size), effort]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_OUT, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as failed:
        print(f"{axis} {size} {effort}: {str(failed.stderr)[-500:]}", file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(axes: Sequence[str], efforts: Sequence[str]) -> None:
    """Measure every point of these axes and keep the figures beside those of other axes."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for axis in axes:
        for effort in efforts:
            for size in AXES[axis].sizes:
                row = in_a_process(axis, size, effort)
                if row is None:
                    continue
                extra = (row["peak"] - row["training peak"]) / 2**20
                print(f"{axis} {size} {effort}: {row['steps']:.0f} steps, {extra:+.0f} MiB", flush=True)
                known = [old for old in known if _point(old) != _point(row)] + [row]
                RESULTS.write_text(json.dumps(known, indent=1) + "\n")


def _point(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["axis"], row["size"], row["effort"]


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axes", default=",".join(AXES))
    parser.add_argument("--efforts", default="quick")
    parser.add_argument("--draw", action="store_true", help="only draw what was measured before")
    parser.add_argument("--point", nargs=3, metavar=("AXIS", "SIZE", "EFFORT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        axis, size, effort = asked.point
        print(json.dumps(measure(axis, int(size), effort)))
        return
    if not asked.draw:
        run(asked.axes.split(","), asked.efforts.split(","))
    from benchmarks.growth_pictures import draw

    draw(json.loads(RESULTS.read_text()), {name: axis.title for name, axis in AXES.items()}, IMAGES)


if __name__ == "__main__":
    main()
