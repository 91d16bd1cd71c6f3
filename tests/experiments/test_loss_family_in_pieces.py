"""A loss is recognized alike, however many of the outputs are worked on at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.core.control import Control
from nbdebug.experiments import loss_family
from nbdebug.experiments.loss_family import Family, recognize
from nbdebug.experiments.loss_of_outputs import open_box
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup

LABELS = torch.arange(8) % 5
IGNORED = torch.tensor([-100, -100, -100, 3, 4, 0, 1, 2])
VALUES = torch.linspace(-2, 2, 40).reshape(8, 5)

LOSSES: dict[str, tuple[torch.Tensor, Callable[..., torch.Tensor]]] = {
    "softmax": (LABELS, F.cross_entropy),
    "softmax, without some rows": (IGNORED, F.cross_entropy),
    "logistic": ((VALUES > 0).float(), F.binary_cross_entropy_with_logits),
    "squared": (VALUES, F.mse_loss),
    "linear": (LABELS, F.nll_loss),
    "distance": (VALUES, F.l1_loss),
    "differences": (LABELS, F.multi_margin_loss),
}


def recognized(targets: torch.Tensor, loss: Callable[..., torch.Tensor]) -> Family:
    """Recognize this loss of a linear layer."""
    torch.manual_seed(0)
    model = nn.Linear(3, 5)
    setup = Setup(model, DataLoader(TensorDataset(torch.randn(8, 3), targets), 8), loss)
    sandbox = make_sandbox(setup, Control())
    box = open_box(sandbox, sandbox.batch())
    return recognize(box, next(iter(box.heads)))


@pytest.mark.parametrize("name", LOSSES)
def test_is_recognized_in_pieces_as_it_is_as_a_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recognized(*LOSSES[name])
    assert whole.name == name.split(",")[0]
    monkeypatch.setattr(loss_family, "PIECE", 40)  # of four outputs: two samples
    pieces = recognized(*LOSSES[name])
    assert (pieces.name, pieces.dim) == (whole.name, whole.dim)
    for one, other in ((whole.wanted, pieces.wanted), (whole.weight, pieces.weight), (whole.active, pieces.active)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(other, one)


def test_works_on_a_part_of_the_outputs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_family, "PIECE", 40)
    outputs = torch.zeros(4, 8, 5)
    answers = loss_family._Answers(outputs, torch.zeros(4), outputs, False)
    assert [tuple(piece.shape) for piece, _ in answers.pieces()] == [(4, 2, 5)] * 4
    assert [tuple(piece.shape) for piece, _ in answers.pieces(0)] == [(4, 8, 5)]
