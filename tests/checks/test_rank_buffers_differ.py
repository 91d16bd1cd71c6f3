"""Processes whose constants are not the same."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug.watch.judging import judged
from tests.clinic import recorded_patient
from tests.distributed.scenes import scene


@recorded_patient("rank-buffers-differ", where="projection")
def random_features() -> dict[str, Any]:
    """Random features are drawn on each process, and nothing sends them round."""
    return {"recording": scene("random_features")}


@recorded_patient("rank-buffers-differ", where="mean")
def scaled_by_shard() -> dict[str, Any]:
    """Each process scales by its own share of the data."""
    return {"recording": scene("scaled_by_shard")}


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("rank-buffers-differ").status == "clean"


def test_running_statistics_that_are_not_sent_are_a_note() -> None:
    found = judged(scene("buffers_not_sent")).result("rank-buffers-differ").findings
    assert [finding.severity for finding in found] == ["note"]
