"""What trainings written without sight of the checks have shown: false alarms, and illnesses that were missed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.evidence.recording import Recording
from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import endless, mlp, watched
from tests.zoo.tabular import digits

cross_entropy, mse_loss = nn.functional.cross_entropy, nn.functional.mse_loss


def alarms(recording: Recording) -> list[str]:
    return [str(finding) for finding in judged(recording).alarms]


# --- healthy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e-2, 3e-2])
def test_a_single_layer_may_grow_sure_of_itself(rate: float) -> None:
    """Logistic regression starts small, and its weights grow to what the answers need."""
    model = nn.Linear(64, 10)
    with torch.no_grad():
        model.weight.mul_(0.5)
    recording = watched(model, torch.optim.Adam(model.parameters(), rate), steps=600)["recording"]
    assert recording.loss.last < 0.3 and alarms(recording) == []


def test_a_network_that_is_copied_now_and_then_into_its_target() -> None:
    """DQN: the loss jumps whenever the target network is made anew, and the model acts between the steps."""
    value, target = (nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(2))
    optimizer = torch.optim.Adam(value.parameters(), 1e-2)
    state, memory = torch.randn(4), []
    with nbdebug.watch(value, optimizer) as live:
        for step in range(700):
            with torch.no_grad():
                action = int(value(state).argmax()) if torch.rand(()) > 0.2 else int(torch.rand(()) > 0.5)
            after = torch.randn(4)
            memory.append((state, action, float((state[0] > 0) == bool(action)), after))
            state = after
            if len(memory) < 32:
                continue
            drawn = [memory[place] for place in torch.randint(0, len(memory), (32,)).tolist()]
            states, actions, rewards, later = zip(*drawn, strict=True)
            with torch.no_grad():
                best = torch.tensor(rewards) + 0.9 * target(torch.stack(later)).max(1).values
            found = value(torch.stack(states)).gather(1, torch.tensor(actions)[:, None])[:, 0]
            optimizer.zero_grad()
            mse_loss(found, best).backward()
            optimizer.step()
            if step % 100 == 0:
                target.load_state_dict(value.state_dict())
    recording = live.recording()
    assert recording.asked.distinct == recording.asked.seen > 400 and alarms(recording) == []


def test_an_evaluation_on_the_same_data_is_no_acting() -> None:
    """The loss of a training that is evaluated after every few steps is judged as ever."""
    model, held = mlp(), list(digits())[:4]
    optimizer = torch.optim.SGD(model.parameters(), 1e-7)
    with nbdebug.watch(model, optimizer) as live:
        for step, (x, y) in zip(range(300), endless(digits()), strict=False):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            if step % 5 == 0:
                with torch.no_grad():
                    for inputs, _ in held:
                        model(inputs)
    assert "loss-flat" in [finding.check for finding in live.report().alarms]


def test_gradients_that_are_written_by_hand() -> None:
    """An evolution strategy calls no backward."""
    model, batches = mlp(), iter(endless(digits()))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live, torch.no_grad():
        for _ in range(60):
            x, y = next(batches)
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            for _ in range(4):
                noise = [0.02 * torch.randn_like(p) for p in model.parameters()]
                losses = []
                for sign in (1.0, -1.0):
                    for parameter, move in zip(model.parameters(), noise, strict=True):
                        parameter.add_(sign * move)
                    losses.append(float(cross_entropy(model(x), y)))
                    for parameter, move in zip(model.parameters(), noise, strict=True):
                        parameter.sub_(sign * move)
                for parameter, move in zip(model.parameters(), noise, strict=True):
                    parameter.grad += (losses[0] - losses[1]) * move / 0.04
            optimizer.step()
            live.log(loss=losses[0])
    assert "step-never-taken" not in [finding.check for finding in live.report().findings]


def test_an_optimizer_of_a_multiplier_beside_the_model() -> None:
    model, multiplier = mlp(), torch.zeros(1, requires_grad=True)
    optimizers = [torch.optim.SGD(model.parameters(), 0.05), torch.optim.SGD([multiplier], 0.01, maximize=True)]
    with nbdebug.watch(model, optimizers) as live:
        for _, (x, y) in zip(range(60), endless(digits()), strict=False):
            for optimizer in optimizers:
                optimizer.zero_grad()
            output = model(x)
            (cross_entropy(output, y) + multiplier * (output.square().mean() - 1)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert live.recording().steps == 60 and not live.report().alarms
    assert any("hold no parameter of the model: 1" in note for note in live.recording().unseen)


def test_a_mean_over_time_inside_the_model_is_no_alarm() -> None:
    """A teacher that the optimizer happens to hold takes part without gradients, and is moved by hand."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student, self.teacher = mlp(), mlp()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.no_grad():
                told = self.teacher(x)
            return self.student(x), told

    model = Both()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _, (x, y) in zip(range(80), endless(digits()), strict=False):
            output, told = model(x)
            optimizer.zero_grad()
            (cross_entropy(output, y) + 0.1 * mse_loss(output, told)).backward()
            optimizer.step()
            with torch.no_grad():
                for own, other in zip(model.teacher.parameters(), model.student.parameters(), strict=True):
                    own.lerp_(other, 0.05)
    assert not live.report().alarms, [str(finding) for finding in live.report().alarms]


# --- ill --------------------------------------------------------------------------------------------------------------


class Encoded(nn.Module):
    """An encoder and a head; what is between them is the illness."""

    def __init__(self, between: Any) -> None:
        super().__init__()
        self.encoder, self.head, self.between = nn.Linear(64, 32), nn.Linear(32, 10), between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.between(self.encoder(x).relu()))


@failing_recording("untrained-parameters", where="encoder")
def cut_off_in_the_middle() -> dict[str, Any]:
    """What the encoder gives is detached."""
    model = Encoded(lambda x: x.detach())
    return watched(model, torch.optim.SGD(model.parameters(), 0.05), steps=80)


@failing_recording("untrained-parameters", where="encoder")
def left_out_of_the_sum() -> dict[str, Any]:
    """A branch is computed and then forgotten."""
    model = Encoded(torch.zeros_like)
    model.between = lambda x: torch.ones_like(x)
    return watched(model, torch.optim.SGD(model.parameters(), 0.05), steps=80)


@failing_recording("loss-diverges", where="loss")
def wrong_sign() -> dict[str, Any]:
    """The optimizer makes the cross-entropy as large as it can."""
    model = mlp()
    return watched(
        model, torch.optim.Adam(model.parameters(), 1e-2), steps=300, loss_fn=lambda out, y: -cross_entropy(out, y)
    )


@failing_recording("non-finite-loss", where="2.bias")
def root_of_nothing() -> dict[str, Any]:
    """The loss is finite, and the way back through the root of zero is not."""
    model = mlp()
    return watched(
        model,
        torch.optim.SGD(model.parameters(), 0.05),
        steps=40,
        loss_fn=lambda out, y: cross_entropy(out, y) + (out - out.detach()).square().sum().sqrt(),
    )


@failing_recording("step-never-taken", where="your loop")
def loss_made_anew() -> dict[str, Any]:
    """Backward is called on a tensor that knows nothing of the model."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for _, (x, y) in zip(range(80), endless(digits()), strict=False):
            optimizer.zero_grad()
            torch.tensor(cross_entropy(model(x), y).item(), requires_grad=True).backward()
            optimizer.step()
    return {"recording": live.recording()}


def test_a_layer_that_is_never_called_is_a_note() -> None:
    model = mlp()
    model.add_module("spare", nn.Identity())
    model[3].layer = nn.Linear(8, 8)  # type: ignore[union-attr]
    found = judged(watched(model, torch.optim.SGD(model.parameters(), 0.05), steps=80)["recording"]).findings
    assert [f.severity for f in found if f.check == "untrained-parameters"] == ["note"]


def test_no_learning_rate_is_proposed_for_what_does_not_move() -> None:
    """Frozen layers do not count, and a step of nothing is no slip of a digit."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)), nn.Linear(64, 10))
    for layer in model[:4]:
        layer.requires_grad_(False)
    found = judged(watched(model, torch.optim.SGD(model.parameters(), 0.05), steps=80)["recording"]).findings
    assert "update-ratio-off" not in [finding.check for finding in found]
    model = mlp()
    found = judged(watched(model, torch.optim.SGD(model.parameters(), 1e-12), steps=80)["recording"]).findings
    advice = next(finding for finding in found if finding.check == "update-ratio-off").remedies[0]
    assert advice.patch is None and "*=" not in advice.code


# --- a second trial ---------------------------------------------------------------------------------------------------


def test_a_margin_that_most_small_batches_keep() -> None:
    """Most losses are exactly zero, and the others stand out for one step each."""
    model = nn.Linear(64, 10)
    found = []
    for batch in (4, 8):
        batches = [(x[i : i + batch], y[i : i + batch]) for x, y in digits() for i in range(0, len(x) - batch, batch)]
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        found += alarms(
            watched(model, optimizer, steps=900, batches=batches, loss_fn=nn.functional.multi_margin_loss)["recording"]
        )
    assert found == []


def test_a_policy_with_few_states_is_asked_about_one_at_a_time() -> None:
    value, target = (nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(2))
    optimizer = torch.optim.Adam(value.parameters(), 5e-3)
    eye, place, memory = torch.eye(6), 0, []
    with nbdebug.watch(value, optimizer) as live:
        for step in range(900):
            with torch.no_grad():
                action = int(value(eye[place]).argmax()) if torch.rand(()) > 0.3 else int(torch.rand(()) > 0.5)
            after = min(5, place + 1) if action else max(0, place - 1)
            memory.append((place, action, 10.0 * (after == 5), after))
            place = 0 if after == 5 else after
            if len(memory) < 64:
                continue
            drawn = [memory[number] for number in torch.randint(0, len(memory), (32,)).tolist()]
            states, actions, rewards, later = map(torch.tensor, zip(*drawn, strict=True))
            with torch.no_grad():
                best = rewards + 0.95 * (later != 5) * target(eye[later]).amax(1)
            optimizer.zero_grad()
            mse_loss(value(eye[states]).gather(1, actions[:, None])[:, 0], best).backward()
            optimizer.step()
            if step % 200 == 0:
                target.load_state_dict(value.state_dict())
    recording = live.recording()
    assert recording.asked.distinct < 10 and recording.asked_small > 300 and alarms(recording) == []


def scaled_back(factor: float, rate: float = 0.05) -> dict[str, Any]:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), rate)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _, (x, y) in zip(range(200), endless(digits()), strict=False):
            optimizer.zero_grad()
            (4096 * cross_entropy(model(x), y)).backward()
            for parameter in model.parameters():
                parameter.grad *= factor
            optimizer.step()
    return {"recording": live.recording()}


def test_a_scale_that_is_put_right_is_no_clipping() -> None:
    assert alarms(scaled_back(1 / 4096)["recording"]) == []


@failing_recording("clipping-too-tight", where="your loop")
def scaled_back_twice() -> dict[str, Any]:
    """The factor is taken out once more than it was put in, and nothing is learned."""
    return scaled_back(1 / 4096**2)


def test_a_density_that_is_learned_well_is_no_loss_without_a_floor() -> None:
    """The logarithm of a variance that is bounded below falls far below zero, and stays there."""
    model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 2))

    def likelihood(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        variance = nn.functional.softplus(output[:, 1]) + 1e-4
        return nn.functional.gaussian_nll_loss(output[:, 0], wanted, variance)

    x = torch.linspace(-3, 3, 512)[torch.randperm(512)][:, None]
    batches = [(x[i : i + 64], x[i : i + 64, 0].sin()) for i in range(0, 512, 64)]
    recording = watched(
        model, torch.optim.Adam(model.parameters(), 3e-3), steps=800, batches=batches, loss_fn=likelihood
    )["recording"]
    assert recording.loss.last < -1
    assert "loss-diverges" not in [finding.check for finding in judged(recording).findings]


@failing_recording("untrained-parameters", where="encoder")
def cut_off_by_rounding() -> dict[str, Any]:
    """The gradient of a rounded code is there, and exactly zero."""
    model = Encoded(torch.round)
    return watched(model, torch.optim.SGD(model.parameters(), 0.05), steps=240)


@failing_recording("loss-diverges", where="loss")
def rate_far_too_large_without_relu() -> dict[str, Any]:
    """The loss explodes within the first steps, and stays there."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    return watched(model, torch.optim.SGD(model.parameters(), 20.0, momentum=0.9), steps=300)


@failing_recording("loss-diverges", where="loss")
def wrong_sign_of_one_term() -> dict[str, Any]:
    """What should keep the codes small makes them large; the parts are called one by one."""
    model = nn.ModuleDict({"into": nn.Linear(64, 16), "out": nn.Linear(16, 64)})
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with nbdebug.watch(model, optimizer) as live:
        for _, (x, _) in zip(range(400), endless(digits()), strict=False):
            code = model["into"](x)
            optimizer.zero_grad()
            (mse_loss(model["out"](code), x) - code.square().mean()).backward()
            optimizer.step()
    return {"recording": live.recording()}


def test_a_loss_that_rises_slowly_is_told_in_a_whole_sentence() -> None:
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), 0.002, maximize=True)
    found = judged(watched(model, optimizer, steps=300)["recording"]).findings
    flat = next(finding for finding in found if finding.check == "loss-flat")
    assert flat.says.startswith("The loss does not fall: 2.") and flat.says.endswith("in the last (no decrease).")


def test_what_nobody_moves_is_not_said_to_be_moved() -> None:
    """The norm of a large weight comes from a sample that changes; its values do not."""
    model = Encoded(lambda x: x.detach())
    model.encoder, model.head = nn.Linear(64, 256), nn.Linear(256, 10)
    finding = judged(watched(model, torch.optim.SGD(model.parameters(), 0.05), steps=200)["recording"]).findings[0]
    assert finding.check == "untrained-parameters" and "updated by other code" not in finding.says
