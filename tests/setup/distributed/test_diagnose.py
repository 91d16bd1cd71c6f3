"""`diagnose` on every process of a real torchrun: rank 0 reports for all, nobody waits for ever, nothing is changed."""

from __future__ import annotations

from pathlib import Path

from tests.setup.distributed.torchrun import torchrun

HEALTHY = """
def trained(with_nbdebug):
    torch.manual_seed(5)
    loader = dealt()
    model = DDP(net(nn.BatchNorm1d(32), Shared0 if with_nbdebug else Shared1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    report = None
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for a, b in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
        if with_nbdebug and epoch == 1:
            before = bits(model)
            report = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), optimizer, quick=True, tell_apart=False)
            assert same(before, model)
    return bits(model), report

class Mean(nn.Module):
    '''Adds its statistics up over all processes in every pass, as SyncBatchNorm does on a device.'''
    def __init__(self, group):
        super().__init__()
        self.group = group
    def forward(self, x):
        if not self.training:
            return x
        mean = x.detach().mean(0)
        dist.all_reduce(mean, group=self.group)
        return x - mean / dist.get_world_size()

Shared0, Shared1 = Mean(None), Mean(dist.new_group())
plain, _ = trained(False)
Shared1 = Mean(Shared1.group)
looked, report = trained(True)
Shared0 = Shared1
again, second = trained(True)
total = torch.ones(1)
dist.all_reduce(total)
tell(
    alarms=[str(f) for f in (*report.alarms, *second.alarms)],
    crashed=[str(r) for r in (*report.results, *second.results) if r.status == "crashed"],
    same=all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(plain, looked, again)),
    compared=report.result("ranks-drift-apart").status,
    notes=report.notes,
    total=float(total),
)
"""


def test_a_healthy_training_is_left_alone(tmp_path: Path) -> None:
    """No alarm, the same weights as without nbdebug, and no collective of the copy's among the user's own."""
    told = torchrun(tmp_path, HEALTHY)
    assert sorted(told) == [0, 1]
    for rank, said in told.items():
        assert said["alarms"] == [] and said["crashed"] == [], said
        assert said["same"] and said["total"] == 2 and not said["notes"]
        assert said["compared"] == ("skipped" if rank else "clean")
    assert told[0]["printed"].count("nbdebug:") <= 4  # the bars of rank 0, begun and ended


ILL = """
from nbdebug.setup.distributed import meeting
CHECKS = ["ranks-drift-apart", "rank-buffers-differ", "ranks-share-data", "non-finite-inputs"]

def examine(model, loader, **options):
    found = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), checks=CHECKS, progress=False, **options)
    return {"found": [(f.check, f.severity, f.where, f.says) for f in found.findings], "notes": found.notes}

model = DDP(net())
with torch.no_grad():
    model.module[0].weight.add_(0.01 * rank)
drifted = examine(model, DataLoader(data, 32, shuffle=True))

torch.manual_seed(rank)
features = DDP(net(nn.LayerNorm(32)), broadcast_buffers=False)
features.module.register_buffer("table", torch.randn(7))
broken = TensorDataset(data.tensors[0].clone(), data.tensors[1])
if rank == 1:
    broken.tensors[0][3, 4] = float("nan")
apart = examine(features, DataLoader(broken, 32, shuffle=True))

meeting.ARRIVAL = 2.0
from nbdebug.evidence import ranks
ranks.ARRIVAL = 2.0
started = time.monotonic()
alone = examine(model, dealt()) if rank == 0 else {}
waited = time.monotonic() - started
dist.barrier()
try:
    left = examine(model, dealt() if rank == 0 else "no loader")
except nbdebug.BadInput as error:
    left = {"raised": str(error)}
dist.barrier()
together = examine(model, dealt())
tell(drifted=drifted, apart=apart, alone=alone, waited=waited, left=left, together=together)
"""


def test_what_differs_between_ranks_is_found_on_the_first(tmp_path: Path) -> None:
    told = torchrun(tmp_path, ILL)
    first, second = told[0], told[1]
    assert ["ranks-drift-apart", "bug", "0.weight"] in [found[:3] for found in first["drifted"]["found"]]
    assert ["ranks-share-data", "bug", "loader"] in [found[:3] for found in first["drifted"]["found"]]
    apart = {found[0]: found for found in first["apart"]["found"]}
    assert apart["rank-buffers-differ"][1:3] == ["suspect", "table"]
    assert apart["ranks-share-data"][1] == "suspect" and "all 1797 samples" in apart["ranks-share-data"][3]
    assert apart["non-finite-inputs"][3].startswith("On rank 1: ")
    assert [found[0] for found in second["drifted"]["found"]] == []  # rank 0 compares
    assert any("call nbdebug on every rank" in note for note in first["alone"]["notes"]) and first["waited"] < 30
    assert "raised" in second["left"]
    assert any("Rank 1" in note for note in first["left"]["notes"])
    assert not first["together"]["notes"]  # whatever went wrong before, they meet again
    assert "ranks-drift-apart" in [found[0] for found in first["together"]["found"]]


INTERRUPTED = """
import signal

class Interrupting(torch.utils.data.Dataset):
    reads = 0
    def __len__(self):
        return len(data)
    def __getitem__(self, index):
        Interrupting.reads += 1
        if rank == 1 and Interrupting.reads == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return data[index]

mine = Interrupting()
loader = DataLoader(mine, 32, sampler=DistributedSampler(mine))
model = DDP(net())
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
before = bits(model)
report = nbdebug.diagnose(
    model, loader, nn.CrossEntropyLoss(), optimizer, progress=False,
    checks=["ranks-drift-apart", "non-finite-inputs", "cannot-overfit-batch"],
)
total = torch.ones(1)
dist.all_reduce(total)
tell(
    stopped=any("was stopped: interrupted" in note for note in report.notes),
    same=same(before, model), total=float(total), drift=report.result("ranks-drift-apart").status,
)
"""


def test_an_interrupted_rank_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Ctrl-C on one rank ends its own run; the other reports, and both go on together."""
    told = torchrun(tmp_path, INTERRUPTED)
    assert all(said["same"] and said["total"] == 2 for said in told.values())
    assert [told[rank]["stopped"] for rank in (0, 1)] == [False, True]
    assert told[0]["drift"] == "clean"
