"""Short trainings of two real processes under watch, ill and healthy, all in one torchrun."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from nbdebug.evidence import Recording
from nbdebug.watch.saving import load
from tests.distributed.torchrun import torchrun

__all__ = ["scene"]

TRAIN = """
from pathlib import Path

def average(model, left_out=()):
    for name, parameter in model.named_parameters():
        if name not in left_out:
            dist.all_reduce(parameter.grad)
            parameter.grad /= 2

def watched(name, model, loader, *, epochs=2, forward=None, average=None, tell_epoch=True, before=None, rate=0.05):
    optimizer = torch.optim.SGD(model.parameters(), rate)
    with nbdebug.watch(model, optimizer) as live:
        for epoch in range(epochs):
            if tell_epoch and hasattr(getattr(loader, "sampler", None), "set_epoch"):
                loader.sampler.set_epoch(epoch)
            for a, b in loader:
                if before is not None:
                    before()
                optimizer.zero_grad()
                nn.functional.cross_entropy((forward or model)(a), b).backward()
                if average is not None:
                    average(model)
                optimizer.step()
    recording = live.recording()
    if rank == 0:
        save(recording, Path(sys.argv[1]) / f"{name}.npz")
    dist.barrier()

class Features(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.register_buffer("projection", values)
        self.head = nn.Linear(values.shape[1], 10)
    def forward(self, x):
        return self.head(torch.cos(x @ self.projection))

class Standard(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.register_buffer("mean", values.mean(0))
        self.register_buffer("spread", values.std(0) + 0.1)
        self.inner = net()
    def forward(self, x):
        return self.inner((x - self.mean) / self.spread)

class Unsharded(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(data[i] for i in range(640))

class OwnShare(torch.utils.data.Sampler):
    epoch = 0
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __iter__(self):
        order = torch.randperm(640, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order[rank::2].tolist())
    def __len__(self):
        return 320

class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.04 * rank)
        return x
"""
ILL = """
model = DDP(net())
watched("bypassed_wrapper", model, dealt(), forward=model.module)
model = net()
watched("layer_left_out", model, dealt(), average=lambda model: average(model, ["2.weight", "2.bias"]))
torch.manual_seed(rank)
watched("random_features", DDP(Features(torch.randn(64, 32)), broadcast_buffers=False), dealt())
torch.manual_seed(0)
watched("scaled_by_shard", Standard(data.tensors[0][rank * 100 : rank * 100 + 100]), dealt(), average=average)
watched("one_seed_no_sampler", DDP(net()), DataLoader(data, 64, shuffle=True), epochs=1)
watched("unsharded_stream", DDP(net()), DataLoader(Unsharded(), 32))
watched("epoch_not_told", DDP(net()), dealt(), epochs=3, tell_epoch=False)
watched("own_sampler", DDP(net()), DataLoader(data, 32, sampler=OwnShare()), epochs=3, tell_epoch=False)
watched("late_data", DDP(net()), dealt(), before=lambda: time.sleep(0.04 * rank))
watched("late_forward", DDP(net(Slow())), dealt())
"""
HEALTHY = """
watched("with_batchnorm", DDP(net(nn.BatchNorm1d(32))), dealt(), epochs=3)
watched("buffers_not_sent", DDP(net(nn.BatchNorm1d(32)), broadcast_buffers=False), dealt(), epochs=3)
torch.manual_seed(100 + rank)
weights = torch.rand(len(data))
drawn = torch.utils.data.WeightedRandomSampler(weights, 900)
watched("weighted_on_each", DDP(net()), DataLoader(data, 32, sampler=drawn))
watched("split_model", net(), dealt())
torch.manual_seed(0)

model = DDP(net())
optimizer = torch.optim.SGD(model.parameters(), 0.05)
loader = dealt()
with nbdebug.watch(model, optimizer) as live:
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for number, (a, b) in enumerate(loader):
            if number % 2 == 0:
                with model.no_sync():
                    nn.functional.cross_entropy(model(a), b).backward()
                continue
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
            optimizer.zero_grad()
if rank == 0:
    save(live.recording(), Path(sys.argv[1]) / "accumulated.npz")
dist.barrier()

model = DDP(net())
optimizer = torch.optim.SGD(model.parameters(), 0.05)
uneven = DataLoader(data, 32, sampler=range(rank * 900, 1700 if rank else 900))
with nbdebug.watch(model, optimizer) as live, model.join():
    for epoch in range(2):
        for a, b in uneven:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
if rank == 0:
    save(live.recording(), Path(sys.argv[1]) / "uneven.npz")
dist.barrier()
tell(done=True)
"""


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="nbdebug-ranks-"))
    torchrun(folder, TRAIN + ILL + HEALTHY)
    return folder


def scene(name: str) -> Recording:
    """Give what rank 0 recorded of one of the trainings; all of them are run when the first is asked for."""
    return load(_folder() / f"{name}.npz")
