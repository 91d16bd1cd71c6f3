"""A report as an answer for assistants, made without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.integrations.mcp.structured import structured


def answer(**options: Any) -> dict[str, Any]:
    """Diagnose a sound program and return the answer."""
    inputs = torch.randn(128, 8)
    loader = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), 16, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    report = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), optimizer, progress=False, **options)
    return structured(report, Path.cwd())


def test_a_sound_program_is_an_answer_too() -> None:
    """What was not tried is listed with its checks, and what was not passed is said in the text."""
    found = answer(effort="quick")
    assert found["status"] == "completed"
    assert not [finding for finding in found["findings"] if finding["severity"] != "note"]
    (group,) = found["not_tried"]
    assert "quick" in group["reason"]
    assert "cannot-overfit-batch" in group["checks"]
    assert "Not examined: your training loop" in found["text"]


@pytest.mark.parametrize("check", ["forward-fails"])
def test_a_run_that_ends_with_its_time_is_partial(check: str) -> None:
    assert answer(checks=[check], time_limit=600)["status"] == "completed"
    assert answer(time_limit=1e-3)["status"] == "partial"
