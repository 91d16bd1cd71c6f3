"""A process that the others wait for."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug.watch.judging import judged
from tests.clinic import recorded_patient
from tests.distributed.scenes import scene


@recorded_patient("lagging-rank", where="rank 1")
def late_data() -> dict[str, Any]:
    """The data of one process come late."""
    return {"recording": scene("late_data")}


@recorded_patient("lagging-rank", where="rank 1")
def late_forward() -> dict[str, Any]:
    """One process computes longer."""
    return {"recording": scene("late_forward")}


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated", "weighted_on_each", "bypassed_wrapper"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("lagging-rank").status == "clean"


def test_says_which_part_is_late() -> None:
    parts = [
        judged(scene(name)).result("lagging-rank").findings[0].evidence["part"]
        for name in ("late_data", "late_forward")
    ]
    assert parts == ["data", "forward"]
