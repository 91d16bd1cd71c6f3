"""What watching costs, as a ratio to the bare loop: each step is made bare and watched in turn, in one process.

    python -m benchmarks.watch_overhead [--rounds 300] [--setups 6] [--workloads a,b,c,d,e] [--peers]

CPU time of the process is compared, on one thread, because wall time says more about the neighbors than about us. The
median of the ratios over blocks of steps is given, with the quartiles. Where in memory a model happens to lie makes it
quicker or slower by two hundredths for as long as it lives, so the rounds are shared out among several sets of models;
and what ran before a step has filled the cache, so the order is drawn anew for each round. On a busy machine all
figures are too high: what a step of the model has in the cache it finds there again, and what a recorder had there is
gone.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

import nbdebug
from benchmarks.large_setups import deep_model
from benchmarks.watch_bound import by_hand

BARE, WARM, PEER_WARM = "bare", 70, 3  # steps before the first that counts
BLOCK = 10  # steps of one ratio
PEER_SETUPS = 2
TARGETS = {
    "everything": {"a": 1.10, "b": 1.05, "c": 1.05, "d": 1.30},
    "default": {"a": 1.03, "b": 1.03, "c": 1.03, "d": 1.10, "e": 1.10},
}


class Residual(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x + self.body(x))


class Encoder(nn.Module):
    """A transformer encoder over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(tokens)).mean(dim=1))


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Workload a."""
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return model, torch.randn(128, 784)


def residual_cnn() -> tuple[nn.Module, torch.Tensor]:
    """Workload b."""
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    stem = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, Residual(16), Residual(16), Residual(16), *head), torch.randn(64, 3, 32, 32)


def encoder() -> tuple[nn.Module, torch.Tensor]:
    """Workload c."""
    return Encoder(), torch.randint(0, 1000, (16, 64))


def deep_mlp() -> tuple[nn.Module, torch.Tensor]:
    """Workload d."""
    hidden = [part for _ in range(49) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(64, 10)), torch.randn(128, 64)


def many_modules() -> tuple[nn.Module, torch.Tensor]:
    """Workload e: 1,005 modules."""
    model, _ = deep_model()
    return nn.Sequential(model, nn.Linear(2, 10)), torch.randn(64, 20)


WORKLOADS = {"a": mlp, "b": residual_cnn, "c": encoder, "d": deep_mlp, "e": many_modules}
Step = Callable[[], None]
Watched = Callable[[nn.Module, Any], Any]


def training(name: str) -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return a model, its optimizer, and one step of its training."""
    torch.manual_seed(0)
    model, x = WORKLOADS[name]()
    y = torch.randint(0, 10, (len(x),))
    kind = torch.optim.AdamW if name == "c" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return model, optimizer, step


def interleaved(name: str, ways: dict[str, Watched], rounds: int, warm: int, setups: int) -> dict[str, list[float]]:
    """Return the CPU time of every step of every way of watching, a step of each in turn, over several sets of
    models.
    """
    found: dict[str, list[float]] = {way: [] for way in ways}
    dice = random.Random(0)
    for _ in range(setups):
        times = one_setup(name, ways, warm + rounds // setups, dice)
        for way in ways:
            found[way] += times[way][warm:]
    return found


def one_setup(name: str, ways: dict[str, Watched], rounds: int, dice: random.Random) -> dict[str, list[float]]:
    """Make a model for each way of watching, and train them side by side."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    order = list(ways)
    dice.shuffle(order)
    with ExitStack() as stack:
        steps: dict[str, Step] = {}
        for way in order:
            model, optimizer, steps[way] = training(name)
            extra = ways[way](model, optimizer)
            if hasattr(extra, "__enter__"):
                stack.enter_context(extra)
        for number in range(rounds):
            gc.collect() if number % BLOCK == 0 else None
            gc.disable()
            dice.shuffle(order)
            for way in order:
                began = time.process_time()
                steps[way]()
                found[way].append(time.process_time() - began)
            gc.enable()
    return found


def ratios(watched: list[float], bare: list[float]) -> list[float]:
    """Return the ratio of the times of each block of steps."""
    starts = range(0, len(bare) - BLOCK + 1, BLOCK)
    return [sum(watched[i : i + BLOCK]) / sum(bare[i : i + BLOCK]) for i in starts]


def unwatched(model: nn.Module, optimizer: Any) -> None:
    """Leave a training alone."""


def beside(way: str, watched: Watched) -> dict[str, Watched]:
    """One way beside a bare loop of its own, and no more: models that wait for their turn would share the cache."""
    return {BARE: unwatched, way: watched}


def ours() -> dict[str, Watched]:
    """The floor below which nothing can be told, a bound written by hand, and the ways with a target."""
    return {
        "bare again (noise)": unwatched,
        "written by hand": by_hand,
        "nothing due": lambda model, optimizer: nbdebug.watch(model, optimizer, every=10**9),
        "default": lambda model, optimizer: nbdebug.watch(model, optimizer),
        "everything": lambda model, optimizer: nbdebug.watch(model, optimizer, every=1, budget=1.0),
    }


def report(name: str, found: dict[str, list[float]]) -> None:
    """Print one line for each way of watching a workload."""
    for way, times in found.items():
        if way == BARE:
            print(f"({name}) {way:<28} {1e3 * statistics.median(times):6.2f} ms of CPU a step", flush=True)
            continue
        low, middle, high = statistics.quantiles(ratios(times, found[BARE]), n=4)
        target = TARGETS.get(way, {}).get(name)
        aim = f"  target {target:.2f} {'met' if middle <= target else 'MISSED'}" if target else ""
        print(f"({name}) {way:<28} {middle:6.3f}×  [{low:.3f} … {high:.3f}]{aim}", flush=True)


def main() -> None:
    """Measure every workload: our ways, and then the peers in fewer steps, each beside a bare loop of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--setups", type=int, default=6, help="sets of models that share the rounds")
    parser.add_argument("--workloads", default="a,b,c,d,e")
    parser.add_argument("--ways", default="", help="of ours, such as default; all unless told otherwise")
    parser.add_argument("--peers", action="store_true", help="also the peers that are installed")
    parser.add_argument("--peer-rounds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    others: dict[str, Watched] = {}
    if options.peers:
        from benchmarks.watch_peers import peers

        others = dict(peers())
    for name in options.workloads.split(","):
        chosen = {way: watched for way, watched in ours().items() if not options.ways or way in options.ways.split(",")}
        for way, watched in chosen.items():
            report(name, interleaved(name, beside(way, watched), options.rounds, WARM, options.setups))
        for way, watched in others.items():
            report(name, interleaved(name, beside(way, watched), options.peer_rounds, PEER_WARM, PEER_SETUPS))


if __name__ == "__main__":
    main()
