"""Other ways to read a batch, of which each is one that the forward could take."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nbdebug.setup.batch_layout import Signature, read_batch
from nbdebug.setup.other_readings import other_readings

X, M, Y = torch.zeros(4, 3), torch.zeros(4, 3), torch.zeros(4)


@pytest.mark.parametrize(
    ("raw", "asks", "offered"),
    [
        ((X, Y), Signature(("x",)), ["batch[1] → batch[0]", "batch[0], no target"]),
        (
            (X, M, Y),
            Signature(("x", "mask"), 2),
            ["batch[2], batch[1] → batch[0]", "batch[0], batch[2] → batch[1]", "batch[0], batch[1], no target"],
        ),
        ({"image": X, "label": Y}, Signature(("image",)), ["image, no target"]),
        (X, Signature(("x",)), []),
    ],
    ids=["pair", "two inputs", "names", "one tensor"],
)
def test_each_other_target_is_offered(raw: Any, asks: Signature, offered: list[str]) -> None:
    now = read_batch(raw, asks)
    others = other_readings(raw, now, asks)
    assert list(others) == offered
    assert all(reading.target != now.target and len(reading.input_paths) >= 1 for reading in others.values())
