"""A training of two processes under `watch`: the same bits on both, and gradients as they are after the averaging."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.setup.distributed.torchrun import torchrun

WATCHED = """
from contextlib import nullcontext

def trained(is_watched):
    torch.manual_seed(5)
    loader, model = dealt(), DDP(net(nn.BatchNorm1d(32)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    norms = []
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) if is_watched else nullcontext() as live:
        for (a, b), _ in zip(loader, range(6)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            norms.append(float(sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5))
            optimizer.step()
    return bits(model), live, norms

plain, _, norms = trained(False)
seen, live, _ = trained(True)
found = live.recording()
tell(
    same=all(torch.equal(a, b) for a, b in zip(plain, seen)),
    norms=norms,
    before=found.gradient.values.tolist(),
    after=found.used.values.tolist(),
    layers=sorted(found.layers),
    steps=found.steps,
    ranks=[(one.rank, one.steps) for one in found.ranks],
    unseen=list(found.unseen),
)
"""


def test_two_processes_train_the_same_bits_and_show_averaged_gradients(tmp_path: Path) -> None:
    told = torchrun(tmp_path, WATCHED)
    assert sorted(told) == [0, 1]
    for said in told.values():
        assert said["same"] and {"0", "1", "2", "3"} <= set(said["layers"]) and not said["unseen"]
        assert np.allclose(said["before"], said["norms"], rtol=1e-4)
        assert np.allclose(said["after"], said["norms"], rtol=1e-4)
    assert told[0]["norms"] == told[1]["norms"]
    assert told[0]["ranks"] == [[rank, told[0]["steps"]] for rank in (0, 1)] and told[1]["ranks"] == []
