"""`diagnose` on sharded models: on a whole but shallow stand-in on each rank, or on what needs no copy."""

from __future__ import annotations

from pathlib import Path

from tests.setup.distributed.test_sharded import BUILD
from tests.setup.distributed.torchrun import torchrun

EXAMINED = """
def held(model):
    return [getattr(p, "to_local", lambda p=p: p)().detach().clone() for p in model.parameters()]

def examined(model, *, steps=0, optimizer=None, **options):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-3)
    loader = dealt()
    for (a, b), _ in zip(loader, range(steps)):
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
        optimizer.zero_grad()
    before = held(model)
    report = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), optimizer, progress=False, **options)
    dist.barrier()
    reasons = {r.check: r.reason for r in report.results if r.status == "skipped"}
    return {
        "same": all(torch.equal(a, b) for a, b in zip(before, held(model))),
        "alarms": [(f.check, f.where) for f in report.alarms], "notes": report.notes,
        "crashed": [str(r) for r in report.results if r.status == "crashed"],
        "done": [r.check for r in report.results if r.status in ("clean", "found")],
        "drift": reasons.get("ranks-drift-apart", ""), "statistic": reasons.get("dead-units", ""),
        "batch-mixing": reasons.get("batch-mixing", ""), "parameters": report.setup["parameters"],
    }

def deep(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), *[Block() for _ in range(5)], *more, nn.Linear(32, 10))

class Mixing(nn.Module):
    def forward(self, x):
        return x + x.mean(0, keepdim=True)

line = init_device_mesh("cpu", (world,))
whole_one = sharded(line, deep())
mixing = sharded(line, deep(Mixing()))
half = torch.optim.AdamW([p for n, p in mixing.named_parameters() if not n.startswith("7")], 1e-3)
split = cut(line, fresh())
CHECKS = ["batch-mixing", "parameters-missing-from-optimizer", "dead-units", "ranks-drift-apart", "sample-fails"]

def own_step(model, batch, loss_fn, optimizer):
    loss = loss_fn(whole_one(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss

tell(
    healthy=examined(whole_one, steps=3, quick=True),
    ill=examined(mixing, optimizer=half, checks=CHECKS, tell_apart=False),
    split=examined(split, quick=True),
    named=examined(whole_one, checks=CHECKS, train_step=own_step),
)
"""


def test_a_sharded_model_is_examined_on_a_stand_in(tmp_path: Path) -> None:
    for rank, told in torchrun(tmp_path, BUILD + EXAMINED).items():
        assert not any(said["crashed"] for said in told.values() if isinstance(said, dict)), told
        assert all(said["same"] for said in told.values() if isinstance(said, dict))
        for name in ("healthy", "split"):
            said = told[name]
            assert not said["alarms"] and {"batch-mixing", "forward-fails"} <= set(said["done"]), said
            assert "judges the values" in said["statistic"] and (rank or not said["drift"])
        healthy = told["healthy"]
        assert any("without 3, 4, 5" in note for note in healthy["notes"]) and healthy["parameters"] > 13_000
        ill = [check for check, _ in told["ill"]["alarms"]]
        assert "batch-mixing" in ill and "parameters-missing-from-optimizer" in ill
        named = told["named"]
        assert "train_step names the sharded model" in named["batch-mixing"] and "sample-fails" in named["done"]
