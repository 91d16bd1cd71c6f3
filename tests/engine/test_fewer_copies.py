"""What a diagnosis saves: copies that nothing looks at, probes that cannot apply, walks of the collector."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.control import Control
from nbdebug.core.registry import registry
from nbdebug.engine.probe_runner import collecting_only_new
from nbdebug.engine.session import Session
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.late_copy import is_made, late_sandbox
from nbdebug.setup import Setup


def small_setup() -> Setup:
    """Return two classes and a network of one hidden layer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
    return Setup(model, DataLoader(data, 8), nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1))


@dataclass(frozen=True)
class Looked:
    """What a probe of these tests has seen."""

    size: int


def test_an_experiment_that_reads_only_batches_makes_no_copy() -> None:
    made: list[Sandbox] = []
    late = late_sandbox(small_setup(), Control(), made.append)
    assert late.batch().size == 8
    assert late.train_step is None
    assert not is_made(late)
    assert made == []


def test_a_late_copy_is_like_one_that_is_made_at_once() -> None:
    setup, made = small_setup(), list[Sandbox]()
    late = late_sandbox(setup, Control(), made.append)
    loss = late.run(late.batch()).loss
    assert type(late) is Sandbox
    assert made == [late]
    assert late.model is not setup.model
    assert (late.how, late.owns_optimizer) == ("deepcopy", False)
    assert torch.isfinite(loss)


def test_a_late_copy_takes_what_is_set_on_it() -> None:
    late = late_sandbox(small_setup(), Control(), lambda made: None)
    late.loss_fn = None
    assert is_made(late)
    assert late.loss_fn is None


def test_a_copy_with_patches_is_made_at_once() -> None:
    setup, made = small_setup(), list[Sandbox]()
    setup.patches = (lambda sandbox: setattr(sandbox, "loss_fn", nn.MSELoss()),)
    late = late_sandbox(setup, Control(), made.append)
    assert is_made(late)
    assert isinstance(late.loss_fn, nn.MSELoss)
    assert made == [late]


@pytest.mark.parametrize(("op", "is_run"), [("cross_entropy", True), ("ctc_loss", False)])
def test_a_probe_for_ops_runs_only_where_the_loss_calls_one(op: str, is_run: bool) -> None:
    seen: list[int] = []

    @nbdebug.probe(ops=(op,))
    def looks(sandbox: Sandbox) -> Looked:
        seen.append(sandbox.batch().size)
        return Looked(seen[-1])

    try:
        session = Session(small_setup())
        missing = None if is_run else pytest.raises(NotApplicable, match=f"calls no {op}")
        with missing or nullcontext():
            assert session.gather(Looked) == Looked(8)
    finally:
        del registry.probes[Looked]
    assert seen == ([8] if is_run else [])


def test_what_the_recorded_run_calls_is_evidence() -> None:
    found = Session(small_setup()).gather(RecordedStructure)
    assert {"linear", "relu", "cross_entropy"} <= found.ops


def test_the_collector_leaves_out_what_was_there_and_takes_it_back() -> None:
    seen: list[int] = []
    session = Session(small_setup())
    assert gc.get_freeze_count() == 0
    session.run(["forward-fails"], first=lambda: seen.append(gc.get_freeze_count()))
    assert seen[0] > 0
    assert gc.get_freeze_count() == 0


def test_the_collector_is_put_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collecting_only_new():
        raise ZeroDivisionError
    assert gc.get_freeze_count() == 0


def test_what_the_user_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with collecting_only_new():
            pass
        assert gc.get_freeze_count() >= before > 0
    finally:
        gc.unfreeze()
