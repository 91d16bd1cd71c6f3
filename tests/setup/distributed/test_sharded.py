"""`watch` on models that are cut into pieces: the same bits, the norms of the whole, and no collective of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.setup.distributed.torchrun import torchrun

BUILD = """
from contextlib import nullcontext
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint
world = dist.get_world_size()

class Block(nn.Module):
    def __init__(self, checkpoints=False):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 36), nn.Linear(36, 32), nn.LayerNorm(32)
        self.checkpoints = checkpoints
    def inner(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))
    def forward(self, x):
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.checkpoints else self.inner(x))

def fresh(checkpoints=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), Block(checkpoints), Block(checkpoints), nn.Linear(32, 10))

def sharded(mesh, model):
    for part in model:
        fully_shard(part, mesh=mesh)
    return fully_shard(model, mesh=mesh)

def cut(mesh, model):
    for block in (model[1], model[2]):
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model

def whole(tensor):
    full = getattr(tensor, "full_tensor", None)
    return (full() if full is not None else tensor).detach().clone()

def trained(model, share, is_watched, forward=None, steps=8, bad=-1, **options):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    drawn = torch.Generator().manual_seed(7 + share)
    norms, weights = [], []
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) if is_watched else nullcontext() as live:
        for step in range(steps):
            rows = torch.randint(0, 1700, (16,), generator=drawn)
            a, b = data.tensors[0][rows], data.tensors[1][rows]
            if step == bad:
                a = a / 0
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if options.get("half") else nullcontext():
                loss = nn.functional.cross_entropy((forward or model)(a).float(), b)
            loss.backward()
            if not is_watched:
                norms.append(sum(float(whole(p.grad).norm()) ** 2 for p in model.parameters()) ** 0.5)
                weights.append(float(whole(model[1].up.weight).norm()))
            if len({getattr(p, "device_mesh", None) for p in model.parameters()}) == 1:  # torch clips no others
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e3)
            optimizer.step()
    return [whole(p) for p in model.parameters()], live, norms, weights

def compared(build, share=rank, **options):
    watched, live, _, _ = trained(build(), share, True, **options)
    plain, _, norms, weights = trained(build(), share, False, **options)
    found, report = live.recording(), live.report()
    dist.barrier()
    up = found.parameters["1.up.weight"]
    return {
        "same": all(torch.equal(a, b) for a, b in zip(plain, watched)),
        "norms": norms, "found": found.gradient.values.tolist(),
        "weights": weights, "weight": up.weight.values.tolist(), "layers": sorted(found.layers),
        "alarms": [str(f) for f in report.alarms], "ranks": len(found.ranks),
        "crashed": [str(r) for r in report.results if r.status == "crashed"],
        "coverage": [found.coverage.missing, found.coverage.waiting] if found.coverage else None,
        "unseen": list(found.unseen), "first": live.recording().ranks and found.ranks[0].share,
    }
"""

TWO = """
line = init_device_mesh("cpu", (world,))
told = {
    "fully sharded": compared(lambda: sharded(line, fresh())),
    "tensor parallel": compared(lambda: cut(line, fresh()), share=0),
    "checkpointed, half": compared(lambda: sharded(line, fresh(True)), half=True),
}

model = sharded(line, fresh())
_, live, _, _ = trained(model, rank, True, bad=5 if rank == 1 else -1)
ill = live.report()
found = [(f.check, f.where, f.says) for f in ill.alarms if f.check == "non-finite-loss"]

model = cut(line, fresh())
with torch.no_grad():
    model[1].norm.weight.add_(0.5 * rank)
_, live, _, _ = trained(model, 0, True)
apart = [(f.check, f.where) for f in live.report().findings]
tell(**told, ill=found, apart=apart)
"""


def sound(said: dict[str, Any], first: bool) -> None:
    """Hold what one process told against the training without nbdebug."""
    assert said["same"] and not said["alarms"] and not said["crashed"], said
    assert {"0", "1", "1.up", "1.down", "3"} <= set(said["layers"])
    assert said["coverage"] == [[], []]
    if first:
        assert np.allclose(said["found"], said["norms"], rtol=2e-4), (said["found"], said["norms"])
        assert np.allclose(said["weight"], said["weights"], rtol=2e-2)  # of a sample


def test_two_processes_train_sharded_models_to_the_same_bits(tmp_path: Path) -> None:
    told = torchrun(tmp_path, BUILD + TWO)
    for rank, said in told.items():
        for name in ("fully sharded", "tensor parallel", "checkpointed, half"):
            sound(said[name], first=rank == 0)
    check, where, says = told[0]["ill"][0]
    assert (check, where) == ("non-finite-loss", "0") and "on rank 1" in says and "at step 5" in says
    assert ["ranks-drift-apart", "1.norm.weight"] in told[0]["apart"]
    assert "ranks-share-data" not in [check for check, _ in told[0]["apart"]]


MANY = """
line, grid = init_device_mesh("cpu", (world,)), init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
model = sharded(line, fresh())
tell(**{
    "fully sharded": compared(lambda: sharded(line, fresh())),
    "in replicas": compared(lambda: sharded(grid, fresh())),
    "both ways": compared(lambda: sharded(grid["data"], cut(grid["model"], fresh())), share=rank // 2),
})
"""


@pytest.mark.slow
def test_four_processes_train_sharded_models_to_the_same_bits(tmp_path: Path) -> None:
    told = torchrun(tmp_path, BUILD + MANY, processes=4, seconds=280)
    for rank, said in told.items():
        for name in ("fully sharded", "in replicas", "both ways"):
            sound(said[name], first=rank == 0)


COMPILED = """
line = init_device_mesh("cpu", (world,))
def compiled():
    model = sharded(line, fresh())
    for part in model:
        part.compile(backend="aot_eager")
    return model
tell(compiled=compared(compiled))
"""


@pytest.mark.slow
def test_a_compiled_sharded_model_is_watched_from_outside(tmp_path: Path) -> None:
    for rank, said in torchrun(tmp_path, BUILD + COMPILED, seconds=280).items():
        said = said["compiled"]
        assert said["same"] and not said["alarms"] and any("compiled" in note for note in said["unseen"])
        assert rank or np.allclose(said["found"], said["norms"], rtol=2e-4)
