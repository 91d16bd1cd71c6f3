"""However long a run is, what is kept of it stays small."""

from __future__ import annotations

import gc

import psutil
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watch.recorder.recorder import Recorder
from nbdebug.watch.recorder.sample import Sample
from nbdebug.watch.recorder.targets import target_of
from tests.watch.runs import mlp, train

METRICS = 20


def soaked(steps: int, from_step: int) -> tuple[float, float]:
    """Train so many steps with twenty metrics; give the growth in MB from one step on, and the kB of a metric."""
    torch.manual_seed(0)
    model, x, process = nn.Linear(2, 1), torch.randn(4, 2), psutil.Process()
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    start = 0
    with nbdebug.watch(model, optimizer) as live:
        for step in range(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            live.log(**{f"metric {number}": step % (number + 7) for number in range(METRICS - 1)})
            if step == from_step:
                gc.collect()
                start = process.memory_info().rss
        gc.collect()
        grown = process.memory_info().rss - start
    store = live._recorder.store
    assert len(store.scalars) == METRICS  # the loss is one
    assert all(series.measured == steps for series in live.recording().scalars.values())
    return grown / 1e6, max(track.nbytes for track in store.scalars.values()) / 1e3


def test_a_long_run_stays_small() -> None:
    _, kilobytes = soaked(6_000, 3_000)
    assert kilobytes <= 150


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_million_steps_stay_small() -> None:
    growth, kilobytes = soaked(1_000_000, 100_000)
    print(f"growth from step 100,000 on: {growth:.2f} MB; {kilobytes:.0f} kB a metric")
    assert growth <= 5 and kilobytes <= 150


def test_tensors_are_let_go() -> None:
    """Between steps the recorder holds no tensor of the user's, and pending samples are few."""
    others = [x for x in gc.get_objects() if type(x) is torch.Tensor]  # of other tests; kept, so that ids stay theirs
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    recorder = Recorder(target_of(model, optimizer, None), every=1, budget=1.0)
    recorder.start()
    train(model, optimizer, 40)
    assert not recorder.passes.calls and len(recorder.store.samples) <= 32 and len(recorder.store.rows) <= 256
    assert all(isinstance(sample, Sample) for sample in recorder.store.samples)
    gc.collect()
    known = {id(x) for x in others}
    every = [x for x in gc.get_objects() if type(x) is torch.Tensor and id(x) not in known]
    held = [x for x in every if x.grad_fn is not None]
    recorder.stop()
    assert not held
