"""Failing examples whose loss grows with the batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows, seeded, split

CHECK = "loss-sums-over-batch"


def net(inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


@failing_example(CHECK, where="loss_fn")
def summed_with_a_high_rate() -> dict[str, Any]:
    """A rate that fits a mean is 64 times too high for the sum."""
    rows = torch.randn(512, 8, generator=seeded())
    model = net(8, 1)
    return {
        "model": model,
        "loader": split(rows, rows[:, :1] * 3)[0],
        "loss_fn": nn.MSELoss(reduction="sum"),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }


@failing_example(CHECK, where="compute_loss")
def summed_by_hand() -> dict[str, Any]:
    """A sum over samples and classes, with an optimizer that does not mind."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        return -model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]).sum()
        # fixed: return -model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]).mean()

    return {"model": net(), "loader": split(*digit_rows())[0], "compute_loss": compute}


def findings(**setup: Any) -> list[Any]:
    """Diagnose with this check only."""
    return nbdebug.diagnose(**setup, checks=[CHECK], progress=False).findings


def test_is_an_alarm_only_where_the_rate_suffers() -> None:
    """A sum by itself is a matter of taste."""
    assert [f.severity for f in findings(**summed_with_a_high_rate())] == ["suspect"]
    assert [f.severity for f in findings(**summed_by_hand())] == ["note"]
    fitting = summed_with_a_high_rate()
    fitting["optimizer"].param_groups[0]["lr"] = 1e-4
    assert [f.severity for f in findings(**fitting)] == ["note"]


def test_means_do_not_grow() -> None:
    """Batch normalization and dropout do not disturb that."""
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 10))
    assert not findings(model=model, loader=split(*digit_rows())[0], loss_fn=nn.CrossEntropyLoss())
