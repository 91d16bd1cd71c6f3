"""Terms, heads, predictions and targets are read as their author would name them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.experiments.tape import TapeUnreadable, agree_on_replay, override
from tests.experiments.tape.programs import Net, X, Y, computed, in_a_step, sandbox_of, tape_of

ONE_HOT = F.one_hot(Y, 3).float()


def parts(model: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two losses of one kind each."""
    scores = model(x)
    return F.cross_entropy(scores, y), scores.square().mean()


def stacked(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Sum a stack."""
    return torch.stack(parts(model, x, y)).sum()


def accumulated(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add up in place, beginning with nothing."""
    total = torch.zeros(())
    for part, weight in zip(parts(model, x, y), (1.0, 0.25), strict=True):
        total += weight * part
    return total


def elementwise(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add for each sample, then average."""
    scores = model(x)
    return (F.cross_entropy(scores, y, reduction="none") + 0.5 * scores.square().sum(1)).mean()


SUMS: dict[str, tuple[Any, Any]] = {
    "plus": (lambda m, x, y: sum(parts(m, x, y)), lambda a, b: (a, b)),
    "weights": (lambda m, x, y: 2 * parts(m, x, y)[0] - parts(m, x, y)[1] / 4, lambda a, b: (2 * a, -b / 4)),
    "stack": (stacked, lambda a, b: (a, b)),
    "mean of a stack": (lambda m, x, y: torch.stack(parts(m, x, y)).mean(), lambda a, b: (a / 2, b / 2)),
    "in place": (accumulated, lambda a, b: (a, b / 4)),
    "for each sample": (elementwise, lambda a, b: (a, 1.5 * b)),
    "negated": (lambda m, x, y: -(3 - parts(m, x, y)[0]) + parts(m, x, y)[1], lambda a, b: (a, b)),
}


@pytest.mark.parametrize("name", SUMS)
def test_terms(name: str) -> None:
    loss, expected = SUMS[name]
    sandbox = computed(loss)
    tape = tape_of(sandbox)
    first, second = (float(part.detach()) for part in parts(sandbox.model, X, Y))
    assert [term.value for term in tape.terms] == pytest.approx(list(expected(first, second)), rel=1e-5)
    assert tape.loss_name == "cross_entropy" and tape.main is tape.terms[0]


class Weighted(Net):
    """A model with learned weights of its two losses."""

    def __init__(self) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(torch.tensor([0.5, -0.5]))


LEARNED: dict[str, Any] = {
    "vector": lambda m, x, y: (torch.stack(parts(m, x, y)) * (-m.log_variance).exp() + m.log_variance).sum(),
    "one by one": lambda m, x, y: sum(
        (-s).exp() * part + s for part, s in zip(parts(m, x, y), m.log_variance, strict=True)
    ),
}


@pytest.mark.parametrize("loss", LEARNED.values(), ids=LEARNED.keys())
def test_learned_weights_of_terms_are_no_predictions(loss: Any) -> None:
    sandbox = computed(loss, Weighted())
    tape = tape_of(sandbox)
    first = float(parts(sandbox.model, X, Y)[0].detach())
    assert tape.prediction.module == "head" and tape.loss_name == "cross_entropy"
    assert tape.main.value == pytest.approx(first * float(torch.tensor(-0.5).exp()))


def test_a_label_comes_before_a_teacher() -> None:
    teacher = Net().requires_grad_(False)

    def distilled(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x)
        soft = F.kl_div(scores.log_softmax(1), teacher(x).softmax(1), reduction="batchmean")
        return 100 * soft + F.cross_entropy(scores, y)

    tape = tape_of(computed(distilled))
    assert tape.loss_name == "cross_entropy" and [term.comparison.name for term in tape.terms if term.comparison] == [
        "kl_div",
        "cross_entropy",
    ]


HEADS: dict[str, tuple[Any, str]] = {
    "scaled by a constant": (lambda m, x, y: F.cross_entropy(m(x) / 0.1, y), "linear"),
    "probabilities": (lambda m, x, y: F.nll_loss((m(x).softmax(1) + 1e-9).log(), y), "linear"),
    "weights in the loss": (
        lambda m, x, y: F.cross_entropy(F.linear(m(x), m.head.weight.T), y),
        "linear",
    ),
    "normalized": (lambda m, x, y: F.cross_entropy(F.normalize(m(x)) @ F.normalize(m.head.weight[:, :3]), y), "matmul"),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_head_is_the_last_op_with_parameters(name: str) -> None:
    loss, made_by = HEADS[name]
    tape = tape_of(computed(loss))
    assert len(tape.heads) == 1 and tape.heads[0].made_by == made_by
    assert tape.prediction.op >= tape.heads[0].op and tape.target is not None
    assert tape.replay_error < 1e-6


def test_a_frozen_last_layer_still_makes_the_prediction() -> None:
    model = Net()
    model.head.requires_grad_(False)
    tape = tape_of(sandbox_of(model, nn.CrossEntropyLoss()))
    assert tape.prediction.module == "head" and tape.heads[0].module == "body"
    new = torch.randn(12, 8)
    expected = F.cross_entropy(model.head(new.relu()), Y)
    assert float(tape.replay(exchange={tape.heads[0].number: new})) == pytest.approx(float(expected.detach()))


def test_prediction_and_target_are_told_apart_by_the_gradient() -> None:
    tape = tape_of(computed(lambda m, x, y: F.mse_loss(F.one_hot(y, 3).float(), m(x))))
    assert tape.prediction.module == "head"
    assert tape.target is not None and torch.equal(tape.target.value, ONE_HOT)


def adversarial(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
    """Two backward passes, the first without a target of the batch."""
    noise = torch.randn(12, 5)
    F.binary_cross_entropy_with_logits(model(noise)[:, 0], torch.ones(12)).backward()
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()


def test_of_several_backward_passes_the_one_with_labels_is_read() -> None:
    sandbox = sandbox_of(Net(), nn.CrossEntropyLoss(), train_step=adversarial)
    tape = tape_of(sandbox)
    assert len(tape.recording.roots) == 2 and tape.loss_name == "cross_entropy"
    new = torch.randn(12, 3)
    expected = float(F.cross_entropy(new, Y))
    assert float(tape.replay(new)) == pytest.approx(expected)
    assert override(sandbox, sandbox.batch(), tape, {tape.prediction.number: new}).loss == pytest.approx(expected)


def printed(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Read the number of right answers before the loss is computed."""
    scores = model(x)
    str(int((scores.argmax(1) == y).sum()))
    return F.cross_entropy(scores, y)


def computed_with(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Weigh the loss by a number that comes from the scores."""
    scores = model(x)
    return (scores - F.one_hot(y, 3)).square().mean() * float(scores.detach().abs().max())


@pytest.mark.parametrize(("loss", "allowed"), [(printed, True), (computed_with, False)])
def test_a_number_that_is_only_printed_allows_a_replay(loss: Any, allowed: bool) -> None:
    sandbox = computed(loss)
    tape = tape_of(sandbox)
    with pytest.raises(TapeUnreadable, match="Python number"):
        tape.replay(tape.prediction.value)
    assert agree_on_replay(sandbox, sandbox.batch(), tape) is allowed
    if allowed:
        assert float(tape.replay(tape.prediction.value)) == pytest.approx(tape.loss)
    else:
        with pytest.raises(TapeUnreadable, match="Python number"):
            tape.replay(tape.prediction.value)


def test_modes_are_held_on_request() -> None:
    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        model.train()
        return in_a_step(model, batch, loss_fn, optimizer)

    model = nn.Sequential(nn.Dropout(1.0), Net())
    sandbox = sandbox_of(model, nn.CrossEntropyLoss(), train_step=step)
    with sandbox.mode(training=False):
        assert torch.equal(tape_of(sandbox, hold_modes=True).prediction.value, sandbox.model(X))
        assert not torch.equal(tape_of(sandbox).prediction.value, sandbox.model(X))
        assert not any(module.training for module in sandbox.model.modules())


def test_other_models_of_the_program_stay_as_they_are() -> None:
    """A step may average its weights into a teacher, and go backward through a second network."""
    teacher, second = Net(), nn.Linear(3, 3)
    other = torch.optim.Adam(second.parameters())

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(second(model(batch[0])), batch[1]) + F.mse_loss(model(batch[0]), teacher(batch[0]))
        loss.backward()
        optimizer.step()
        other.step()
        with torch.no_grad():
            for average, parameter in zip(teacher.parameters(), model.parameters(), strict=True):
                average.lerp_(parameter, 0.5)
        return loss

    sandbox = sandbox_of(Net(), nn.CrossEntropyLoss(), train_step=step)
    cells = {
        name: cell.cell_contents
        for name, cell in zip(sandbox.train_step.__code__.co_freevars, sandbox.train_step.__closure__, strict=True)
    }  # type: ignore[union-attr]
    before = {name: [p.detach().clone() for p in cells[name].parameters()] for name in ("teacher", "second")}
    assert tape_of(sandbox).loss_name == "cross_entropy"
    for name, values in before.items():
        for parameter, value in zip(cells[name].parameters(), values, strict=True):
            assert torch.equal(parameter, value) and parameter.grad is None
    assert not cells["other"].state
