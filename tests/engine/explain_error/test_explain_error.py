"""Real errors of every kind: the module, the shapes that met, and what would fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.engine.explain_error import ErrorExplanation
from tests.trust.fingerprint import difference, fingerprint


class Net(nn.Module):
    """A model with one fault, named by its argument."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.embed = nn.Embedding(10, 8)
        self.body = nn.ModuleDict({"first": nn.Linear(8, 8), "norm": nn.BatchNorm1d(8)})
        self.head = nn.Linear(8 if fault != "head" else 16, 4)
        self.state: Any = None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        if self.fault == "double":
            x = x.double()
        x = self.body["first"](x).tanh()
        if self.fault == "in-place":
            x += 1
        if self.fault == "view":
            x = x.view(-1, 7)
        if self.fault == "cat":
            other = x[1:]
            x = torch.cat([x, other], 1)
        if self.fault == "meta":
            x = x + torch.zeros(8, device="meta")
        if self.fault == "detach":
            x = x.detach()
            return x.sum(1)
        if self.fault == "state":
            x = x if self.state is None else x + self.state
            self.state = x.tanh()
            return self.head(self.state)
        return self.head(self.body["norm"](x))


IDS, LABELS = torch.arange(6), torch.tensor([0, 1, 2, 3, 0, 1])


def explained(code: Callable[[], Any]) -> ErrorExplanation:
    """Run what fails, explain it, and see that the explanation changed nothing."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - every kind is meant
        code()
    error = raised.value
    explanation = nbdebug.explain_error(error)
    assert explanation.error.startswith(type(error).__name__) and explanation.finding.evidence
    assert "nbdebug-error" in explanation._repr_html_() and str(explanation)
    return explanation


def run(model: nn.Module, ids: torch.Tensor = IDS) -> Any:
    return model(ids)


def step(model: nn.Module, loss_fn: Any = nn.functional.cross_entropy, labels: torch.Tensor = LABELS) -> Any:
    loss = loss_fn(model(IDS), labels)
    loss.backward()
    return loss


def test_a_layer_of_the_wrong_size() -> None:
    found = explained(lambda: run(Net("head")))
    assert (found.kind, found.where) == ("shape", "head")
    assert "(6, 8) float32" in found.says and "in_features=8 (it is 16)" in found.says


def test_a_view_that_does_not_divide() -> None:
    found = explained(lambda: run(Net("view")))
    assert (found.kind, found.where) == ("shape", "model")
    assert "(6, 8) float32" in found.says and "x = x.view(-1, 7)" in found.says


def test_tensors_of_a_line_are_named_with_their_shapes() -> None:
    found = explained(lambda: run(Net("cat")))
    assert found.kind == "shape" and "(6, 8) float32 and (5, 8) float32" in found.says


def test_types_that_do_not_mix() -> None:
    found = explained(lambda: run(Net("double")))
    assert (found.kind, found.where) == ("dtype", "body.first")
    assert found.remedies[0].code == "x.float()"


def test_convolutions_get_their_channels() -> None:
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    found = explained(lambda: conv(torch.randn(2, 8, 8, 3)))
    assert (found.kind, found.where) == ("shape", "0") and found.remedies[0].code == "x.movedim(-1, 1)"


def test_devices_that_do_not_mix() -> None:
    found = explained(lambda: run(Net("meta")))
    assert found.kind == "device" and "device=x.device" in str(found)
    found = explained(lambda: nn.Sequential(nn.Linear(4, 3))(torch.randn(2, 4, device="meta")))
    assert (found.kind, found.where) == ("device", "0")
    assert "parameters are on cpu, and it received tensors on meta" in found.says


@pytest.mark.parametrize("loss_fn", [nn.functional.cross_entropy, nn.CrossEntropyLoss()], ids=["function", "module"])
def test_labels_out_of_range(loss_fn: Any) -> None:
    found = explained(lambda: step(Net(), loss_fn, LABELS + 1))
    assert found.kind == "label" and found.where == "loss_fn"
    assert "labels range from 1 to 4, and the outputs have shape (6, 4)" in found.says
    assert "target - 1" in str(found)


def test_labels_of_the_wrong_shape_and_type() -> None:
    found = explained(lambda: step(Net(), labels=LABELS[:, None]))
    assert found.kind == "shape" and "target.squeeze(1)" in str(found)
    found = explained(lambda: step(Net(), labels=LABELS.float()))
    assert found.kind == "dtype" and found.remedies[0].code == "loss_fn(output, target.long())"


def test_ids_beyond_the_table() -> None:
    found = explained(lambda: run(Net(), IDS + 9))
    assert (found.kind, found.where) == ("embedding", "embed")
    assert "num_embeddings=15 or more (it is 10, and the largest index is 14)" in found.says


def test_a_value_changed_in_place() -> None:
    model = Net("in-place")
    found = explained(lambda: step(model))
    assert found.kind == "in-place" and "x += 1 in model" in found.says and "tanh" in found.says
    assert "x = x + y" in str(found)


def test_a_parameter_changed_in_place() -> None:
    model = Net()
    found = explained(lambda: model.head.weight.mul_(2))
    assert found.kind == "in-place" and "torch.no_grad()" in str(found)


def test_a_gradient_that_is_not_a_number() -> None:
    x = torch.zeros(2, requires_grad=True)

    def train() -> None:
        with torch.autograd.detect_anomaly(check_nan=True):
            loss = (x.sqrt() * 0).sum()
            loss.backward()

    with pytest.warns(UserWarning, match="Anomaly|Error detected in Sqrt"):
        found = explained(train)
    assert found.kind == "nan" and "expect(finite=True)" in str(found)


def test_an_assertion_of_the_user_about_nan() -> None:
    def train() -> None:
        loss = torch.tensor(float("nan"))
        assert not loss.isnan(), f"loss is {loss.item()}"

    assert explained(train).kind == "nan"


def test_what_is_not_finite_is_named_when_the_user_asserts_that_it_is() -> None:
    model = Net().eval()
    ids, noise = IDS, torch.zeros(6, 4)

    def train(scale: float) -> None:
        output = model(ids) * scale
        assert torch.isfinite(output + noise).all()

    found = explained(lambda: train(float("inf")))
    assert (found.kind, found.where) == ("nan", "your code")
    assert "non-finite: output (6, 4); finite: noise (6, 4)" in found.says.lower()
    with torch.no_grad():
        model.head.weight[0, 0] = float("nan")
    before = fingerprint(model)
    found = explained(lambda: train(1.0))
    assert found.where == "head" and "parameter model.head.weight of shape (4, 8) is not finite" in found.says
    assert not difference(before, fingerprint(model))


def test_a_loss_without_a_graph_says_why() -> None:
    frozen = Net().requires_grad_(False)
    found = explained(lambda: step(frozen))
    assert (found.kind, found.where) == ("no-grad", "model") and "model.requires_grad_(True)" in str(found)
    cut = Net("detach")
    found = explained(lambda: step(cut, lambda output, labels: output.sum()))
    assert found.kind == "no-grad" and "x = x.detach()" in found.says


def test_a_graph_that_is_used_up_says_who_kept_it() -> None:
    model = Net("state")
    step(model)
    found = explained(lambda: step(model))
    assert (found.kind, found.where) == ("second-backward", "model")
    assert "model.state keeps the autograd graph" in found.says and "self.state.detach()" in str(found)


def test_a_state_that_is_carried_along() -> None:
    cell = nn.RNNCell(4, 4)

    def train() -> None:
        hidden = torch.zeros(2, 4)
        for _ in range(2):
            hidden = cell(torch.ones(2, 4), hidden)
            loss = hidden.square().sum()
            loss.backward()

    found = explained(train)
    assert found.kind == "second-backward" and "hidden = hidden.detach()" in str(found)


def test_a_loss_of_many_numbers() -> None:
    model = Net()
    found = explained(lambda: step(model, nn.CrossEntropyLoss(reduction="none")))
    assert found.kind == "not-a-number" and "loss.mean().backward()" in str(found)


def test_tuples_and_batches_of_one() -> None:
    model = nn.Sequential(nn.LSTM(4, 4), nn.Linear(4, 2))
    found = explained(lambda: model(torch.randn(3, 2, 4)))
    assert (found.kind, found.where) == ("not-a-tensor", "1")
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    found = explained(lambda: model(torch.randn(1, 4)))
    assert (found.kind, found.where) == ("batch-of-one", "1") and "drop_last=True" in str(found)


def test_an_error_outside_of_every_module_shows_the_shapes_of_its_line() -> None:
    def train() -> None:
        weights, outputs = torch.ones(3), torch.ones(4, 2)
        (weights * outputs).sum()

    found = explained(train)
    assert (found.kind, found.where) == ("shape", "your code")
    assert "It received (3,) float32 and (4, 2) float32" in found.says


def test_an_error_that_has_nothing_to_do_with_tensors_is_not_explained_away() -> None:
    found = explained(lambda: {}["missing"])
    assert found.kind == "" and "KeyError" in found.says and not found.remedies


def test_the_error_behind_another_is_read() -> None:
    def train() -> None:
        try:
            run(Net("head"))
        except RuntimeError as error:
            raise ValueError("the step failed") from error

    assert explained(train).where == "head"


def test_nothing_is_changed_and_no_hook_of_the_user_is_called() -> None:
    calls: list[int] = []
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model[1].register_forward_pre_hook(lambda module, args: calls.append(1))
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError) as raised:
        model(x)
    before, seen = fingerprint(model, x), len(calls)
    found = nbdebug.explain_error(raised.value)
    assert found.where == "1" and "num_features=8 (it is 4)" in found.says
    assert not difference(before, fingerprint(model, x)) and len(calls) == seen


def test_text_of_the_user_is_escaped() -> None:
    found = explained(lambda: {}["<img src=x onerror=alert(1)>"])
    assert "<img" not in found._repr_html_() and found.to_dict()["error"]


def test_without_an_error_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("last_exc", "last_value"):
        monkeypatch.setattr(sys, name, None, raising=False)
    with pytest.raises(nbdebug.BadInput, match="no exception was raised yet"):
        nbdebug.explain_error()
    with pytest.raises(nbdebug.BadInput, match="it is a str"):
        nbdebug.explain_error("RuntimeError")  # type: ignore[arg-type]
