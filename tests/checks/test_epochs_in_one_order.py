"""Epochs that repeat each other."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug.watch.judging import judged
from tests.clinic import recorded_patient
from tests.distributed.scenes import scene


@recorded_patient("epochs-in-one-order", where="loader")
def epoch_not_told() -> dict[str, Any]:
    """A DistributedSampler without set_epoch."""
    return {"recording": scene("epoch_not_told")}


@recorded_patient("epochs-in-one-order", where="loader")
def own_sampler() -> dict[str, Any]:
    """A sampler of the user's own, which is not told the epoch either."""
    return {"recording": scene("own_sampler")}


@pytest.mark.parametrize("name", ["with_batchnorm", "weighted_on_each"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("epochs-in-one-order").status == "clean"


def test_an_order_without_a_sampler_that_shuffles_is_a_note() -> None:
    report = judged(scene("uneven"))
    assert [finding.severity for finding in report.result("epochs-in-one-order").findings] == ["note"]
    assert not report.alarms


def test_a_sampler_that_was_not_told_is_an_alarm() -> None:
    assert [finding.check for finding in judged(scene("epoch_not_told")).alarms] == ["epochs-in-one-order"]
