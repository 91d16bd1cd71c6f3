"""Processes that see the same data."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug.watch.judging import judged
from tests.clinic import recorded_patient
from tests.distributed.scenes import scene


@recorded_patient("ranks-share-data", where="loader")
def one_seed_no_sampler() -> dict[str, Any]:
    """shuffle=True on every process, from the same seed."""
    return {"recording": scene("one_seed_no_sampler")}


@recorded_patient("ranks-share-data", where="loader")
def unsharded_stream() -> dict[str, Any]:
    """A stream that every process reads from the beginning."""
    return {"recording": scene("unsharded_stream")}


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated", "weighted_on_each", "uneven", "epoch_not_told"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("ranks-share-data").status == "clean"
