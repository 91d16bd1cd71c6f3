"""What `diagnose` costs, in training steps of the same model: processor time over processor time, in one process.

Three set-ups of everyday size, each with a real loader and an optimizer. Blocks of training steps stand between the
diagnoses, so that a busy machine slows both alike, and medians are compared. The first call of a process also
imports what the checks need; that is measured apart, before the clock of the first diagnosis starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from benchmarks.large_setups import deep_model, slow_samples

FULL, QUICK = 300, 40  # steps' worth that a whole and a quick diagnosis may cost
BLOCK = 40  # training steps between two diagnoses


@dataclass
class Setup:
    """A model with everything that its training needs."""

    model: nn.Module
    loader: DataLoader[Any]
    optimizer: torch.optim.Optimizer
    loss_fn: nn.Module = field(default_factory=nn.CrossEntropyLoss)


def _digits(side: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    small = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8)
    large = F.interpolate(small, size=(side, side), mode="bilinear")
    return (large - large.mean()) / large.std(), torch.tensor(labels)


def mlp() -> Setup:
    """784-512-512-10 on handwritten digits."""
    x, y = _digits(28)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)
    return Setup(model, loader, torch.optim.Adam(model.parameters(), 1e-3))


class Residual(nn.Module):
    """Two convolutions with a way round them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.way_round = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the convolutions make of it."""
        inner = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        return F.relu(inner + self.way_round(x))


def cnn() -> Setup:
    """A small residual network on digits in random colors, three channels of 32 by 32."""
    x, y = _digits(32)
    tint = torch.rand(len(x), 3, 1, 1, generator=torch.Generator().manual_seed(0)) + 0.5
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    loader = DataLoader(TensorDataset(x * tint, y), batch_size=64, shuffle=True)
    return Setup(model, loader, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=5e-4))


class Encoder(nn.Module):
    """A transformer encoder that sorts sequences into classes."""

    def __init__(self, words: int, classes: int, width: int = 256, layers: int = 4, length: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read the words, and decide by their mean."""
        return self.head(self.encoder(self.embed(tokens) + self.place).mean(1))  # type: ignore[no-any-return]


def transformer() -> Setup:
    """Four layers of width 256 on sequences of 64 words; the class is the topic that most words belong to."""
    generator = torch.Generator().manual_seed(0)
    topic = torch.randint(8, (2048, 1), generator=generator)
    words = torch.randint(200, (2048, 64), generator=generator)
    on_topic = torch.rand(2048, 64, generator=generator) < 0.3
    words = torch.where(on_topic, topic * 25 + words % 25, words)
    model = Encoder(200, 8)
    loader = DataLoader(TensorDataset(words, topic.flatten()), batch_size=16, shuffle=True)
    return Setup(model, loader, torch.optim.AdamW(model.parameters(), 3e-4))


def large_transformer() -> Setup:
    """Six layers of width 384, 11.4 million parameters."""
    small = transformer()
    model = Encoder(2000, 8, width=384, layers=6)
    loader = DataLoader(small.loader.dataset, batch_size=8, shuffle=True)
    return Setup(model, loader, torch.optim.AdamW(model.parameters(), 3e-4))


def deep() -> Setup:
    """A residual network of a thousand modules."""
    model, loader = deep_model()
    return Setup(model, loader, torch.optim.Adam(model.parameters(), 1e-3))


def slow() -> Setup:
    """A small network whose samples take 3 ms each."""
    model, loader = slow_samples()
    return Setup(model, loader, torch.optim.Adam(model.parameters(), 1e-3))


SETUPS: dict[str, Callable[[], Setup]] = {"MLP": mlp, "CNN": cnn, "transformer": transformer}
LARGE: dict[str, Callable[[], Setup]] = {"large transformer": large_transformer, "deep": deep, "slow samples": slow}
EVERY = SETUPS | LARGE


def training(setup: Setup) -> Iterator[float]:
    """Train for ever, and give the processor seconds of each block of steps."""
    batches = iter(setup.loader)
    while True:
        started = time.process_time()
        for _ in range(BLOCK):
            batch = next(batches, None)
            if batch is None:
                batches = iter(setup.loader)
                batch = next(batches)
            setup.optimizer.zero_grad()
            setup.loss_fn(setup.model(batch[0]), batch[1]).backward()
            setup.optimizer.step()
        yield time.process_time() - started


def examine(setup: Setup, **options: Any) -> tuple[float, nbdebug.Report]:
    """Diagnose a set-up and give the processor seconds with the report."""
    started = time.process_time()
    report = nbdebug.diagnose(setup.model, setup.loader, setup.loss_fn, setup.optimizer, progress=False, **options)
    return time.process_time() - started, report


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Alternate training with whole and quick diagnoses of the untrained model, and compare the medians."""
    torch.manual_seed(0)
    steps = training(EVERY[name]())
    next(steps)
    seen: dict[str, list[float]] = {"step": [], "whole": [], "quick": []}
    reports: dict[str, nbdebug.Report] = {}
    for _ in range(rounds):
        for kind, effort in (("whole", "thorough" if name in SETUPS else "normal"), ("quick", "quick")):
            seen["step"].append(next(steps) / BLOCK)
            seconds, reports[kind] = examine(EVERY[name](), effort=effort)
            seen[kind].append(seconds)
    middle = {kind: statistics.median(values) for kind, values in seen.items()}
    return {
        "setup": name,
        **middle,
        "steps of a whole": middle["whole"] / middle["step"],
        "steps of a quick": middle["quick"] / middle["step"],
        "timings": reports["whole"].timings,
        "quick timings": reports["quick"].timings,
        "found": [f"{finding.check} ({finding.severity})" for finding in reports["whole"].findings],
        "crashed": [result.check for result in reports["whole"].results if result.status == "crashed"],
    }


def told(row: dict[str, Any]) -> str:
    """Say one set-up's costs in a few lines, with the dearest probes."""
    step = row["step"]
    lines = [f"{row['setup']}: a step takes {1e3 * step:.1f} ms of processor time"]
    for kind, timings, limit in (("whole", row["timings"], FULL), ("quick", row["quick timings"], QUICK)):
        steps = row[f"steps of a {kind}"]
        verdict = "within" if steps <= limit else "OVER"
        lines.append(f"  {kind}: {row[kind]:.1f} s, {steps:.0f} steps' worth, {verdict} {limit}")
        dearest = list(timings.items())[:12]
        lines.append("    " + ", ".join(f"{probe} {seconds / step:.0f}" for probe, seconds in dearest))
    lines.append(f"  found: {', '.join(row['found']) or 'nothing'}; crashed: {', '.join(row['crashed']) or 'nothing'}")
    return "\n".join(lines)


def main() -> None:
    """Measure the set-ups and print what each costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "setups", nargs="*", default=list(SETUPS), help=f"of {', '.join(EVERY)}; the first three if none is named"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="where to write the figures")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    examine(SETUPS["MLP"](), checks=["left-in-eval-mode"])
    print(f"imports of the first call: {time.process_time() - started:.1f} s of processor time")
    rows = [measure(name, asked.rounds) for name in asked.setups]
    for row in rows:
        print(told(row))
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
