"""Failing examples that squash before a loss that squashes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_images, digit_rows, seeded, split

CHECK = "softmax-before-cross-entropy"


def mlp(*last: nn.Module, classes: int = 10) -> nn.Sequential:
    """Return a small network on digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, classes), *last)


class ByHand(nn.Module):
    """A head that writes its softmax with exp and a division."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return probabilities."""
        raised = torch.exp(self.scores(x))
        return raised / raised.sum(-1, keepdim=True)


class Wrapped(nn.Module):
    """A wrapper that makes probabilities of what the network inside gives."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return probabilities."""
        return torch.softmax(self.net(x), 1)


class Pixels(nn.Module):
    """A segmentation network with a softmax over its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 2, 1)
        self.squash = nn.Softmax(dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a probability for each class and pixel."""
        return self.squash(self.head(self.body(x).relu()))


class Tagger(nn.Module):
    """A recurrent network that gives (batch, time, classes) and squashes the classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a probability for each class and position."""
        return self.head(self.rnn(self.embed(x))[0]).softmax(-1)


class TwoHeads(nn.Module):
    """Two answers, of which one is squashed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.digit, self.parity = ByHand(), nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return both answers by name."""
        hidden = self.body(x)
        return {"parity": self.parity(hidden), "digit": self.digit(hidden)}


@failing_example(CHECK, where="3")
def softmax_layer() -> dict[str, Any]:
    """The classic."""
    return {"model": mlp(nn.Softmax(dim=1)), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}
    # fixed: return {"model": mlp(), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="2")
def softmax_by_hand_with_smoothing() -> dict[str, Any]:
    """exp and a division inside of the head, label smoothing and class weights in the loss."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), ByHand())
    loss = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 2, 10), label_smoothing=0.1)
    return {"model": model, "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="model")
def softmax_in_a_wrapper() -> dict[str, Any]:
    """Hidden in the forward of a wrapper, with a loss by hand that flattens."""
    return {
        "model": Wrapped(),
        "loader": split(*digit_rows())[0],
        "compute_loss": lambda model, batch, _: nn.functional.cross_entropy(model(batch[0]).view(-1, 10), batch[1]),
    }


@failing_example(CHECK, where="squash")
def softmax_over_pixels() -> dict[str, Any]:
    """Segmentation, with ignored pixels."""
    images, _ = digit_images()
    masks = (images[:, 0] > 0.5).long()
    masks[:, 0] = 255
    return {"model": Pixels(), "loader": split(images, masks)[0], "loss_fn": nn.CrossEntropyLoss(ignore_index=255)}


@failing_example(CHECK, where="model")
def softmax_over_tags() -> dict[str, Any]:
    """Sequences, flattened by the loss."""
    tokens = torch.randint(0, 12, (256, 9), generator=seeded())
    loss = lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())  # noqa: E731
    return {"model": Tagger(), "loader": split(tokens, tokens % 4)[0], "loss_fn": loss}


@failing_example(CHECK, where="digit")
def softmax_in_one_of_two_heads() -> dict[str, Any]:
    """Only the second head is ill."""

    def both(out: dict[str, torch.Tensor], y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(out["digit"], y) + nn.functional.cross_entropy(out["parity"], y % 2)

    return {"model": TwoHeads(), "loader": split(*digit_rows())[0], "loss_fn": both}


@failing_example(CHECK, where="loss_fn")
def softmax_in_the_loss() -> dict[str, Any]:
    """The model is fine; the loss squashes by itself before it squashes."""
    loss = lambda out, y: nn.functional.cross_entropy(out.softmax(1), y)  # noqa: E731
    return {"model": mlp(), "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="train_step")
def softmax_in_the_training_step() -> dict[str, Any]:
    """Only the loop squashes."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]).softmax(-1), batch[1])
        loss.backward()
        optimizer.step()
        return float(loss.item())

    model = mlp()
    return {
        "model": model,
        "loader": split(*digit_rows())[0],
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 1e-3),
        "train_step": step,
    }


@failing_example(CHECK, where="head.1")
def softmax_in_a_model_with_its_own_loss() -> dict[str, Any]:
    """The model returns its loss, computed from probabilities."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(64, 32), nn.Sequential(nn.Linear(32, 10), nn.Softmax(-1))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            out = self.head(self.body(x).relu())
            return {"loss": nn.functional.cross_entropy(out, y), "logits": out}

    return {"model": Own(), "loader": split(*digit_rows())[0]}


@failing_example(CHECK, where="model")
def softmax_between_the_last_layer_and_the_models_own_loss() -> dict[str, Any]:
    """No module gives the probabilities, and the model gives its own loss."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            out = self.head(self.body(x).relu()).softmax(1)
            return {"loss": nn.functional.cross_entropy(out, y), "logits": out}

    return {"model": Own(), "loader": split(*digit_rows())[0]}


@pytest.mark.parametrize(
    ("last", "loss"),
    [
        ((), nn.CrossEntropyLoss(label_smoothing=0.1)),
        ((nn.LogSoftmax(1),), nn.CrossEntropyLoss()),
        ((nn.LogSoftmax(1),), nn.NLLLoss()),
        ((nn.Softmax(1),), lambda out, y: nn.functional.nll_loss(out.log(), y)),
        ((nn.Softmax(1),), lambda out, y: nn.functional.mse_loss(out, nn.functional.one_hot(y, 10).float())),
        ((nn.Softmax(1),), lambda out, y: nn.functional.cross_entropy(out * 30, y)),
        ((nn.LayerNorm(10),), nn.CrossEntropyLoss()),
        ((), lambda out, y: (out.softmax(1).gather(1, y[:, None]) - 1).square().mean()),
    ],
)
def test_rightly_squashed(last: tuple[nn.Module, ...], loss: Any) -> None:
    """Probabilities where they are due, log-probabilities, a temperature and a normalized head are no illness."""
    report = nbdebug.diagnose(mlp(*last), split(*digit_rows())[0], loss, checks=[CHECK], progress=False)
    assert not report.findings
    assert report.result(CHECK).status in ("clean", "skipped")


def test_assumed_loss_is_a_suspicion() -> None:
    """What nbdebug only assumed cannot be a bug of the user's."""
    report = nbdebug.diagnose(mlp(nn.Softmax(1)), split(*digit_rows())[0], checks=[CHECK], progress=False)
    assert [finding.severity for finding in report.findings] == ["suspect"]


def test_names_the_floor() -> None:
    """The least loss of ten squashed classes is ln(1 + 9/e)."""
    model = mlp(nn.Softmax(1))
    report = nbdebug.diagnose(model, split(*digit_rows())[0], nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    assert report.findings[0].evidence["least loss with probabilities"] == pytest.approx(1.4612, abs=1e-3)
