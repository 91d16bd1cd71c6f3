"""What the messages between the processes of a watched training cost.

    torchrun --standalone --nproc-per-node=2 -m benchmarks.watch_ranks [--steps 600]

Every process trains workload (a) of `benchmarks.watch_overhead` in DistributedDataParallel, under a default watch, and
says how many messages it wrote, how large the last one was, what one took, and what share of the run they were.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import nbdebug
from benchmarks.watch_overhead import mlp


def timed(live: Any) -> list[tuple[float, float]]:
    """Let every message of a run be timed; give the list of CPU time and wall time that grows with each."""
    found: list[tuple[float, float]] = []
    tell = live._ranks.tell

    def telling() -> None:
        cpu, wall = time.thread_time(), time.perf_counter()
        tell()
        found.append((time.thread_time() - cpu, time.perf_counter() - wall))

    live._ranks.tell = telling
    return found


def main() -> None:
    """Train, and print one line for each process that writes; the first one only reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    plain, x = mlp()
    model, y = DistributedDataParallel(plain), torch.randint(0, 10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    cpu, wall = time.process_time(), time.perf_counter()
    with nbdebug.watch(model, optimizer) as live:
        told = timed(live)
        for _ in range(options.steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x + 0.1 * torch.randn_like(x)), y).backward()
            optimizer.step()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if told and dist.get_rank():
        size = len(json.dumps(asdict(live._ranks._facts())))
        each, waited = (1e3 * statistics.median(part) for part in zip(*told, strict=True))
        print(
            f"rank {dist.get_rank()}: {len(told)} messages of up to {size} bytes in {wall:.1f} s, {options.steps} steps"
        )
        print(f"  {each:.2f} ms of CPU and {waited:.2f} ms each: {sum(c for c, _ in told) / cpu:.3%} of the CPU time")
    dist.barrier()
    live.recording()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
