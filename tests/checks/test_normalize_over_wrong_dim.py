"""Failing examples whose representations are normalized over another dimension than the compared one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.likelihood_programs import network
from tests.checks.normalized_programs import OTHER_DIM, SAME_DIM, contrast, pairs
from tests.examples import failing_example

CHECK = "normalize-over-wrong-dim"


@failing_example("normalize-over-wrong-dim", where="compute_loss")
def columns_of_length_one() -> dict[str, Any]:
    """A contrastive loss whose embeddings are normalized over the batch."""
    torch.manual_seed(0)
    model = network(16)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        one, other = model(batch[0]), model(batch[0] + 0.1 * torch.randn_like(batch[0]))
        dim = 0  # fixed: dim = 1
        a, b = F.normalize(one, dim=dim), F.normalize(other, dim=dim)
        return F.cross_entropy(a @ b.T / 0.2, torch.arange(len(a)))

    return {"model": model, "loader": [(torch.randn(16, 8),) for _ in range(3)], "compute_loss": compute_loss}


@failing_example("normalize-over-wrong-dim", where="compute_loss")
def norms_of_columns() -> dict[str, Any]:
    """The same by a division."""
    torch.manual_seed(0)
    return pairs(contrast(0, by_hand=True))


@pytest.mark.parametrize("name", SAME_DIM)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SAME_DIM[name], CHECK)


@pytest.mark.parametrize("name", OTHER_DIM)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(OTHER_DIM[name], CHECK) == ["suspect"]
