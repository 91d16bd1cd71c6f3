"""What has made tapes of real programs wrong, each as a small program whose loss is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nbdebug.experiments.tape import Tape, TapeUnreadable, moves_with_seed, override, record
from nbdebug.sandbox import Sandbox
from tests.experiments.tape.programs import Net, X, Y, computed, in_a_step, sandbox_of, tape_of

NEW = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))


def agree(sandbox: Sandbox, tape: Tape, new: torch.Tensor | None = None) -> float:
    """Return the loss of another prediction, on which both interventions have to agree, and check their identity."""
    own, number = tape.prediction.value, tape.prediction.number
    assert tape.replay_error < 1e-6
    assert override(sandbox, sandbox.batch(), tape, {number: own}).loss == pytest.approx(tape.loss)
    new = new if new is not None else own.flip(0) + 0.5
    by_replay = float(tape.replay(new).detach())
    assert override(sandbox, sandbox.batch(), tape, {number: new}).loss == pytest.approx(by_replay, rel=1e-4)
    assert by_replay != pytest.approx(tape.loss)
    return by_replay


# -- training steps ---------------------------------------------------------------------------------------------------


def by_closure(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Let the optimizer call the loss."""

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        return loss

    loss: torch.Tensor = optimizer.step(closure)
    return loss


def by_autograd_backward(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> None:
    """Go backward without `Tensor.backward`, and return nothing."""
    optimizer.zero_grad()
    torch.autograd.backward([loss_fn(model(batch[0]), batch[1])])
    optimizer.step()


def by_autograd_grad(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Update the weights without an optimizer."""
    loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= 0.1 * gradient
    return loss


STEPS = {"plain": in_a_step, "closure": by_closure, "backward": by_autograd_backward, "grad": by_autograd_grad}
OPTIMIZERS: dict[str, Any] = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW, "LBFGS": torch.optim.LBFGS}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_a_training_step_is_read_and_trains_nothing(step: Any) -> None:
    model = Net()
    optimizer = (torch.optim.LBFGS if step is by_closure else torch.optim.AdamW)(model.parameters())
    sandbox = sandbox_of(model, nn.CrossEntropyLoss(), optimizer=optimizer, train_step=step)
    before = {name: value.clone() for name, value in sandbox.model.state_dict().items()}
    tape = tape_of(sandbox)
    assert tape.loss_name == "cross_entropy" and tape.target is not None and tape.target.sources == ("batch[1]",)
    agree(sandbox, tape, NEW)
    assert all(torch.equal(value, before[name]) for name, value in sandbox.model.state_dict().items())
    assert not sandbox.optimizer.state and all(p.grad is None for p in sandbox.model.parameters())


def test_gradients_are_those_that_the_optimizer_finds() -> None:
    by_step = sandbox_of(Net(), nn.CrossEntropyLoss(), train_step=in_a_step)
    by_loss = sandbox_of(by_step.setup.model, nn.CrossEntropyLoss())
    found, again = tape_of(by_step).gradients, tape_of(by_loss, gradients=True).gradients
    assert set(found) == {name for name, _ in by_step.model.named_parameters()} == set(again)
    for name in found:
        torch.testing.assert_close(found[name], again[name])
    assert all(p.grad is None for p in by_loss.model.parameters())


def test_a_second_optimizer_behind_a_scheduler_is_held() -> None:
    model = Net()
    second = torch.optim.SGD(model.body.parameters(), 1.0)
    torch.optim.lr_scheduler.ConstantLR(second)  # which wraps the step of this instance

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = in_a_step(model, batch, loss_fn, optimizer)
        second.step()
        return loss

    sandbox = sandbox_of(model, nn.CrossEntropyLoss(), train_step=step)
    before = {name: value.clone() for name, value in sandbox.model.state_dict().items()}
    tape_of(sandbox)
    assert all(torch.equal(value, before[name]) for name, value in sandbox.model.state_dict().items())


# -- in-place ---------------------------------------------------------------------------------------------------------


def into_a_buffer(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Fill fresh memory column by column, then go on in place."""
    out, scores = torch.zeros(12, 3), model(x)
    for column in range(3):
        out[:, column] = scores[:, column]
    out *= 2
    out.add_(1)
    return F.cross_entropy(out, y)


def through_views(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Change the memory through views of it, of which others are read later."""
    out = model(x).clone()
    rows, flat = out[:6], out.view(-1)
    flat.mul_(3)
    rows.sub_(1)
    return F.cross_entropy(out, y) + flat.square().mean()


IN_PLACE: dict[str, Any] = {
    "buffer": into_a_buffer,
    "views": through_views,
    "inplace=True": lambda model, x, y: F.mse_loss(F.relu(model(x) * 2, inplace=True), F.one_hot(y, 3).float()),
    "out=": lambda model, x, y: F.cross_entropy(
        model(x) + torch.add(x[:, :3], 1, out=torch.empty(12, 3)), y
    ),
    "running sum": lambda model, x, y: sum(F.cross_entropy(model(x)[i], y[i]) for i in range(12)) / 12,
}  # fmt: skip


@pytest.mark.parametrize("loss", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_in_place_ops_are_replayed_on_clones(loss: Any) -> None:
    sandbox = computed(loss)
    tape = tape_of(sandbox)
    for head in tape.heads:
        new = head.value.flip(0) - 0.3
        expected = override(sandbox, sandbox.batch(), tape, {head.number: new}).loss
        assert float(tape.replay(exchange={head.number: new})) == pytest.approx(expected, rel=1e-5)
        assert expected != pytest.approx(tape.loss)
    assert float(tape.replay(tape.prediction.value)) == pytest.approx(tape.loss)


# -- custom functions, checkpoints, precision, compiled code ----------------------------------------------------------


class Doubled(torch.autograd.Function):
    """Twice its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return it."""
        return (x + x).clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Double the gradient."""
        return 2 * gradient


doubled: Any = Doubled.apply  # taken before any tape could patch it


def test_a_custom_function_is_one_op() -> None:
    sandbox = computed(lambda model, x, y: F.cross_entropy(doubled(model(x)), y))
    tape = tape_of(sandbox)
    assert [op.name for op in tape.recording.ops].count("Doubled") == 1
    head = tape.heads[-1]
    assert head.made_by == "linear"
    expected = F.cross_entropy(2 * NEW, Y)
    assert float(tape.replay(exchange={head.number: NEW})) == pytest.approx(float(expected))
    assert override(sandbox, sandbox.batch(), tape, {head.number: NEW}).loss == pytest.approx(float(expected))
    assert float(tape.gradient(head.number).norm()) > 0


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant: bool) -> None:
    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        return F.cross_entropy(checkpoint(model, x, use_reentrant=reentrant), y)

    sandbox = computed(loss)
    tape = tape_of(sandbox, gradients=True)
    assert torch.equal(tape.prediction.value, sandbox.model(X))
    agree(sandbox, tape, NEW)
    assert set(tape.gradients) == {name for name, _ in sandbox.model.named_parameters()}
    outcome = override(sandbox, sandbox.batch(), tape, {tape.prediction.number: NEW}, gradient=True)
    leaf = NEW.clone().requires_grad_()
    F.cross_entropy(leaf, Y).backward()
    assert outcome.gradient is not None and leaf.grad is not None
    torch.testing.assert_close(outcome.gradient, leaf.grad)


def test_autocast_is_replayed_with_its_dtype() -> None:
    weight = torch.randn(3, 3)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(x)
            with torch.autocast("cpu", enabled=False):
                scores = scores.float()
            mixed = scores @ weight
        return F.cross_entropy(mixed.float(), y)

    sandbox = computed(loss)
    tape = tape_of(sandbox)
    head = tape.heads[-1]
    assert head.value.dtype == torch.bfloat16
    new = NEW.to(torch.bfloat16)
    expected = float(F.cross_entropy((new @ weight.to(torch.bfloat16)).float(), Y))
    assert float(tape.replay(exchange={head.number: new})) == pytest.approx(expected, rel=1e-3)
    assert tape.replay_error < 1e-6


def test_compiled_functions_are_run_eagerly() -> None:
    def plain(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores * 2, y)

    compiled: Any = torch.compile(plain, backend="eager")
    sandbox = computed(lambda model, x, y: compiled(model(x), y))
    tape = tape_of(sandbox)
    assert tape.loss_name == "cross_entropy"
    agree(sandbox, tape)
    assert torch._dynamo.eval_frame._stance.stance == "default"


def test_the_output_of_a_scripted_model_is_exchanged() -> None:
    sandbox = sandbox_of(torch.jit.script(Net()), nn.CrossEntropyLoss())
    tape = tape_of(sandbox)
    assert tape.prediction.shape == (12, 3) and tape.prediction.made_by == ""
    assert agree(sandbox, tape, NEW) == pytest.approx(float(F.cross_entropy(NEW, Y)))


@torch.jit.script
def scripted_loss(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A loss inside of compiled code."""
    return torch.nn.functional.cross_entropy(scores, y)


HIDDEN: dict[str, Any] = {
    "TorchScript": lambda model, x, y: scripted_loss(model(x), y),
    "vmap": lambda model, x, y: torch.func.vmap(F.cross_entropy)(model(x)[None], y[None]).squeeze(),
    "NumPy": lambda model, x, y: torch.tensor(float(model(x).detach().numpy().sum()), requires_grad=True),
    "no gradient": lambda model, x, y: (model(x).argmax(1) != y).float().mean(),
    "not a scalar": lambda model, x, y: F.cross_entropy(model(x), y, reduction="none"),
    "parameters alone": lambda model, x, y: sum(p.square().sum() for p in model.parameters()),
}


@pytest.mark.parametrize("loss", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_cannot_be_read_is_refused_with_the_reason(loss: Any) -> None:
    sandbox = computed(loss)
    with pytest.raises(TapeUnreadable, match=r"the loss"):
        tape_of(sandbox)


def test_a_step_without_backward_is_refused() -> None:
    sandbox = sandbox_of(Net(), nn.CrossEntropyLoss(), train_step=lambda m, b, loss_fn, o: loss_fn(m(b[0]), b[1]))
    with pytest.raises(TapeUnreadable, match="calls no backward"):
        tape_of(sandbox)


# -- gradients inside of the loss -------------------------------------------------------------------------------------


def test_a_gradient_by_inputs_refuses_replay_and_allows_override() -> None:
    def residual(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        out = model(x)
        (slope,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        return slope.square().mean() + out.square().mean()

    sandbox = computed(residual)
    tape = tape_of(sandbox)
    with pytest.raises(TapeUnreadable, match=r"autograd\.grad"):
        tape.replay(NEW)
    number = tape.prediction.number
    again = override(sandbox, sandbox.batch(), tape, {number: tape.prediction.value}).loss
    assert again == pytest.approx(tape.loss)
    assert override(sandbox, sandbox.batch(), tape, {number: NEW}).loss != pytest.approx(tape.loss)


# -- what tensors are made of -----------------------------------------------------------------------------------------


def from_numpy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Take the labels through NumPy, without a copy."""
    return F.cross_entropy(model(x), torch.from_numpy(y.numpy()))


def from_a_list(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Take the labels through Python numbers."""
    return F.cross_entropy(model(x), torch.tensor(y.tolist()))


def test_labels_through_numpy_are_those_of_the_batch() -> None:
    target = tape_of(computed(from_numpy)).target
    assert target is not None and target.sources == ("batch[1]",)
    target = tape_of(computed(from_a_list)).target
    assert target is not None and target.sources == () and torch.equal(target.value, Y)


def test_an_array_in_the_batch_is_a_source() -> None:
    def loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return F.cross_entropy(model(batch["x"]), torch.from_numpy(batch["wanted"]))

    target = tape_of(sandbox_of(batch={"x": X, "wanted": np.arange(12) % 3}, compute_loss=loss)).target
    assert target is not None and target.sources == ("wanted",)


def test_labels_as_python_numbers_leave_the_target_open() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x).log_softmax(1)
        return -torch.stack([scores[i, int(y[i])] for i in range(12)]).mean()

    tape = tape_of(computed(loss))
    assert tape.target is None and tape.prediction.made_by == "linear" and tape.loss_name == ""


def test_shapes_are_no_data() -> None:
    """What is made like a tensor of the batch holds none of its values."""
    tape = tape_of(computed(lambda model, x, y: F.mse_loss(model(x)[:, 0], torch.ones_like(x[:, 0]))))
    assert tape.target is not None and tape.target.sources == ()
    tape = tape_of(computed(lambda model, x, y: F.mse_loss(model(x)[:, 0], x.new_zeros(12) + x.clone().zero_()[:, 0])))
    assert tape.target is not None and tape.target.sources == ()


def test_random_draws_are_fixed() -> None:
    dropout = computed(lambda model, x, y: F.cross_entropy(F.dropout(model(x) * 2, 0.5), y))
    tape = tape_of(dropout)
    number = tape.heads[-1].number
    expected = override(dropout, dropout.batch(), tape, {number: NEW}).loss
    assert float(tape.replay(exchange={number: NEW})) == pytest.approx(expected)
    assert float(tape.replay(exchange={number: NEW})) == pytest.approx(expected)
    assert moves_with_seed(dropout, dropout.batch(), tape)
    plain = computed(lambda model, x, y: F.cross_entropy(model(x), y))
    assert not moves_with_seed(plain, plain.batch(), tape_of(plain))


def test_a_generator_of_the_program_is_fixed_too() -> None:
    generator = torch.Generator().manual_seed(3)
    sandbox = computed(lambda model, x, y: F.mse_loss(model(x), torch.randn(12, 3, generator=generator)))
    batch = sandbox.batch()
    assert record(sandbox, batch).loss == record(sandbox, batch).loss


def test_a_value_that_becomes_a_number_refuses_replay() -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x)
        return F.cross_entropy(scores / max(float(scores.detach().abs().max()), 1.0), y)

    sandbox = computed(loss)
    tape = tape_of(sandbox)
    with pytest.raises(TapeUnreadable, match="Python number"):
        tape.replay(exchange={tape.heads[-1].number: NEW * 10})
    expected = float(F.cross_entropy(NEW * 10 / (NEW * 10).abs().max(), Y))
    outcome = override(sandbox, sandbox.batch(), tape, {tape.heads[-1].number: NEW * 10})
    assert outcome.loss == pytest.approx(expected)


def test_another_path_in_the_second_run_is_refused() -> None:
    calls: list[int] = []

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return F.cross_entropy(model(x.abs() if len(calls) > 1 else x), y)

    sandbox = computed(loss)
    tape = tape_of(sandbox)
    with pytest.raises(TapeUnreadable, match="other operations"):
        override(sandbox, sandbox.batch(), tape, {tape.prediction.number: NEW})
