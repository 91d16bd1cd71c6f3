"""Processes whose parameters are not the same."""

from __future__ import annotations

from typing import Any

import pytest
from torch.nn.parallel import DistributedDataParallel as DDP

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.setup.distributed.scenes import on_two_ranks, scene
from tests.setup.distributed.trainings import average, dealt, net, watched


@failing_recording("ranks-drift-apart", where="2.bias")
@on_two_ranks
def bypassed_wrapper() -> dict[str, Any]:
    """The forward pass goes past the wrapper, so that no gradient is averaged."""
    model = DDP(net())
    return watched(model, dealt(), forward=model.module)  # fixed: return watched(model, dealt())


@failing_recording("ranks-drift-apart", where="2.bias")
@on_two_ranks
def layer_left_out() -> dict[str, Any]:
    """Gradients are averaged by hand, and the last layer is forgotten."""
    return watched(net(), dealt(), before_step=lambda model: average(model, left_out=("2.weight", "2.bias")))


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated", "weighted_on_each"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("ranks-drift-apart").status == "clean"


def test_the_wrapper_s_promise_is_a_bug() -> None:
    assert judged(scene("bypassed_wrapper")).result("ranks-drift-apart").findings[0].severity == "bug"
    assert judged(scene("layer_left_out")).result("ranks-drift-apart").findings[0].severity == "suspect"


def test_parts_of_a_split_model_are_a_note() -> None:
    """Nothing says whether they are meant to be one."""
    report = judged(scene("split_model"))
    assert [finding.severity for finding in report.result("ranks-drift-apart").findings] == ["note"]
    assert not report.alarms
