"""Run a few lines under a real torchrun with two processes on gloo.

A thread of gloo takes the interpreter's lock where it is the last to let go of a tensor, and torch aborts the process
if that happens while Python shuts down (pytorch/pytorch#179291; seen once in eight runs of a bare DDP training without
nbdebug, with gloo's threads at the lowest priority). DDP keeps those threads alive even after it is gone, so the
processes leave without that shutdown once their exit functions have run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["torchrun"]

HEAD = """
import json, os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from sklearn.datasets import load_digits
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
x, y = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
torch.manual_seed(0)
import nbdebug
from nbdebug.watch.saving import save

def net(*more):
    return nn.Sequential(nn.Linear(64, 32), *more, nn.ReLU(), nn.Linear(32, 10))

def dealt(**options):
    return DataLoader(data, 32, sampler=DistributedSampler(data), **options)

def tell(**values):
    with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
        json.dump(values, file)

def bits(module):
    return [tensor.detach().clone() for tensor in (*module.parameters(), *module.buffers())]

def same(before, module):
    return all(torch.equal(a, b) for a, b in zip(before, bits(module)))
"""

TAIL = """
dist.destroy_process_group()
import atexit
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


def torchrun(
    folder: Path, code: str, *, ends: int = 0, seconds: float = 240, processes: int = 2
) -> dict[int, dict[str, Any]]:
    """Run the lines on two processes or more, and give what each told."""
    script = folder / "script.py"
    script.write_text(HEAD + code + TAIL, "utf-8")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={processes}",
        str(script),
    ]
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, str(folder)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", "PYTHONPATH": path},
    )
    assert bool(done.returncode) == bool(ends), done.stdout + done.stderr
    said = {int(file.stem): json.loads(file.read_text("utf-8")) for file in folder.glob("?.json")}
    return {rank: {**told, "printed": done.stdout + done.stderr} for rank, told in said.items()}
