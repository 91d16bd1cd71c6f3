"""Whatever a probe does and whatever stops it: everything of the user's is bit-identical after it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.core.registry import registry
from tests.trust.fingerprint import difference, fingerprint
from tests.trust.matrix import FAULTS, Tally, examine
from tests.trust.setups import Case, all_cases, mlp

CASES = all_cases()
QUICK = [case for case in CASES if case.quick]
FEW = ["trial_run", "first_pass", "batch_mixing", "overfit_one_batch", "own_loop"]


def test_enough_set_ups() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", QUICK[::3], ids=lambda case: case.name)
def test_leaves_no_trace(case: Case) -> None:
    """The quick slice: some probes with every fault."""
    tally = Tally()
    examine(case, tally, faults=list(FAULTS), probes=FEW)
    assert not tally.differences, "\n".join(tally.differences[:20])
    assert tally.refused == case.refused


def test_every_probe_leaves_no_trace() -> None:
    """Every probe of the registry on one plain set-up, so that a new one is held to it from its first day."""
    tally = Tally()
    examine(CASES[0], tally, faults=["SIGINT twice"])
    assert not tally.differences, "\n".join(tally.differences[:20])
    assert len(tally.probes) == len(
        [p for p in registry.probes.values() if p.function.__module__.startswith("nbdebug.")]
    )


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_whole_matrix(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """Every probe × every set-up × a fault of every kind."""
    tally = Tally()
    examine(case, tally)
    with capsys.disabled():
        print(f"\n{case.name}: {tally}")
    assert not tally.differences, "\n".join(tally.differences[:20])
    assert tally.refused == case.refused


TOUCHES = {
    "a value": lambda m: m[0].weight.data.add_(1),
    "minus zero": lambda m: m[0].bias.data.mul_(-1),
    "a value through numpy": lambda m: m[0].weight.detach().numpy().__setitem__(0, 7),
    "a version": lambda m: m[0].weight.detach().add_(0),
    "a gradient of zeros": lambda m: setattr(m[0].weight, "grad", torch.zeros(8, 6)),
    "a gradient of NaN": lambda m: m[2].weight.grad.fill_(float("nan")),
    "a flag": lambda m: m[1].eval(),
    "requires_grad": lambda m: m[0].weight.requires_grad_(False),
    "a hook": lambda m: m[0].register_forward_hook(lambda *_: None),
    "a gradient hook": lambda m: m[0].weight.register_hook(lambda g: g),
    "an attribute": lambda m: setattr(m, "seen", 1),
    "a new tensor": lambda m: setattr(m[0], "weight", nn.Parameter(m[0].weight.detach().clone())),
    "torch's generator": lambda m: torch.rand(1),
    "numpy's generator": lambda m: np.random.rand(),
    "python's generator": lambda m: random.random(),
    "gradients off": lambda m: torch.set_grad_enabled(False),
    "a thread count": lambda m: torch.set_num_threads(3),
    "anomaly detection": lambda m: torch.autograd.set_detect_anomaly(True),
}


@pytest.mark.parametrize("touch", TOUCHES, ids=str)
def test_the_fingerprint_sees(touch: str) -> None:
    """A fingerprint that sees nothing would prove nothing."""
    model = mlp()
    nn.init.zeros_(model[0].bias)
    model[2].weight.grad = torch.ones(3, 8)
    threads, before = torch.get_num_threads(), fingerprint(model)
    assert not difference(before, fingerprint(model))
    try:
        TOUCHES[touch](model)
        assert difference(before, fingerprint(model))
    finally:
        torch.set_grad_enabled(True)
        torch.set_num_threads(threads)
        torch.autograd.set_detect_anomaly(False)
