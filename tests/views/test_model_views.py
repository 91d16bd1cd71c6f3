"""The views of activations, gradients, layers and curves: their numbers, their forms, and what they leave alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.errors import BadInput, NotApplicable
from nbdebug.evidence.recording import Recording
from nbdebug.views.curve_data import POINTS, thinned
from nbdebug.watch.recorder.series import Series
from tests.trust.fingerprint import difference, fingerprint
from tests.zoo.tabular import digits

HOSTILE = "<img src=x onerror=alert(1)>"


class Small(nn.Module):
    """Two activations: a module in place, and a line of the forward; and a module that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(64, 32), nn.ReLU(inplace=True)
        self.second, self.head, self.unused = nn.Linear(32, 16), nn.Linear(16, 10), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.second(self.act(self.first(x)))))


def small() -> Small:
    torch.manual_seed(0)
    return Small()


def first_batch() -> torch.Tensor:
    return nbdebug.Setup(small(), digits()).batches(1)[0].args[0]  # type: ignore[no-any-return]


def test_activations_are_those_of_the_model() -> None:
    """Rows in the order of the calls; statistics, before and after, agree with a pass by hand."""
    model = small()
    view = nbdebug.show_activations(model, digits())
    rows = {layer.path: layer for layer in view.look.layers}
    assert list(rows) == ["first", "act", "second", "second → function", "head"]
    assert view.look.samples == 64 and view.look.training
    counted = sum(rows["first"].counts)
    assert counted == 64 * 32  # every value is in a bin, those beyond the edges in the last ones
    assert rows["act"].before is not None and rows["act"].before.low < 0 <= rows["act"].own.low  # type: ignore[union-attr]
    assert rows["act"].facts.zeros > 0.1 and rows["first"].facts.zeros == 0
    assert rows["second → function"].own.high <= 1  # type: ignore[union-attr]


def test_dead_units_are_shown() -> None:
    """A layer whose units never fire is marked, with the share of them."""
    model = small()
    with torch.no_grad():
        model.first.bias[:24] = -100
    view = nbdebug.show_activations(model, digits())
    act = next(layer for layer in view.look.layers if layer.path == "act")
    assert act.dead == pytest.approx(24 / 32)
    assert "75%" in str(view)


def test_fifty_layers_are_one_small_message() -> None:
    """The picture of fifty layers is under 100 kB, and layers of very different size share one axis."""
    blocks = [nn.Linear(64, 64), *[nn.Linear(64, 64) for _ in range(48)], nn.Linear(64, 10)]
    with torch.no_grad():
        blocks[20].weight *= 1000
    view = nbdebug.show_activations(nn.Sequential(*blocks), digits())
    assert len(view.look.layers) == 50 and view.look.is_log
    assert len(json.dumps(view.data, allow_nan=False)) < 100_000
    assert np.all(np.diff(view.look.edges) > 0)


def test_values_that_are_no_numbers_are_counted() -> None:
    """NaN in a layer is said there as a share, and the data stays what JSON can hold."""
    model = small()
    with torch.no_grad():
        model.second.weight[0, 0] = float("nan")
    view = nbdebug.show_activations(model, digits())
    bad = {layer["path"]: layer["bad"] for layer in view.data["layers"]}
    assert bad["first"] == 0 and bad["second"] == 64 / (64 * 16)
    json.dumps(view.data, allow_nan=False)


def test_gradients_are_those_of_the_model() -> None:
    """Norms and the step of the optimizer agree with a loop by hand on the same batch."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = nbdebug.Setup(model, digits()).batches(1)[0]
    view = nbdebug.show_gradients(model, [batch.raw], nn.CrossEntropyLoss(), optimizer)
    loss = nn.functional.cross_entropy(model(batch.args[0]), batch.target)
    gradient = torch.autograd.grad(loss, model.head.weight)[0]
    found = {look.name: look for look in view.looks.parameters}["head.weight"]
    assert view.looks.loss == pytest.approx(loss.item(), rel=1e-5)
    assert found.gradient == pytest.approx(float(gradient.norm()), rel=1e-4)
    assert found.update == pytest.approx(float(0.1 * gradient.norm() / model.head.weight.norm()), rel=1e-3)
    assert {look.name: look.gradient for look in view.looks.parameters}["unused.weight"] is None
    assert "none" in str(view) and "<img" in view.html and view.png


class Residual(nn.Module):
    """A block whose sum is a line of the forward, and no module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.act = nn.Linear(64, 64), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what was learned to what came in."""
        return x + self.act(self.inner(x))


def test_the_way_through_a_model_is_seen_through_lines_of_the_forward() -> None:
    """The head takes from the block and, past it, from what went in; what was not called is not on the way."""
    model = nn.Sequential(nn.Linear(64, 64), Residual(), nn.Linear(64, 10))
    model.add_module("unused", nn.Identity())
    model.forward = lambda x: model[2](model[1](model[0](x)))  # type: ignore[method-assign]
    layers = {layer.path: layer for layer in nbdebug.show_layers(model, digits(), checks=False).costs.layers}
    way = sorted((layer for layer in layers.values() if layer.order >= 0), key=lambda layer: layer.order)
    assert [layer.path for layer in way] == ["0", "1.inner", "1.act", "2"]
    assert layers["1.act"].sources == ("1.inner",) and set(layers["2"].sources) == {"1.act", "0"}
    assert layers["unused"].order == layers["1"].order == -1 and layers["0"].sources == ()


def test_layers_with_costs_and_health() -> None:
    """Shapes, parameters and calls are right, the uncalled module says so, and dead units color their layer."""
    model = small()
    with torch.no_grad():
        model.first.bias[:] = -100
    view = nbdebug.show_layers(model, digits(), nn.CrossEntropyLoss(), progress=False)
    rows = {layer.path: layer for layer in view.costs.layers}
    assert rows["model"].parameters == sum(p.numel() for p in model.parameters())
    assert rows["first"].output == (64, 32) and rows["first"].inputs == ((64, 64),)
    assert rows["first"].flops == 2 * 64 * 64 * 32 and rows["unused"].calls == 0
    assert rows["model"].seconds >= rows["first"].seconds > 0
    assert rows["first"].output_bytes == 64 * 32 * 4
    assert view.health["first"].severity == "bug" and "dead-units" in " ".join(view.health["first"].says)
    assert "not called" in str(view)
    assert not nbdebug.show_layers(model, digits(), checks=False).health


def trained(steps: int = 40) -> Any:
    """Watch a short training and give the run."""
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batches = list(digits())
    with nbdebug.watch(model, optimizer) as live:
        view = nbdebug.show_live(live)
        for step in range(steps):
            x, y = batches[step % len(batches)]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            live.log(loss=loss)
            if step % 10 == 9:
                live.log(val_loss=float(loss.detach()) + 0.1)
    return live, view


def test_the_curves_of_a_watch() -> None:
    """A view opened before the loop has followed it: every curve, the learning rate, text, page and picture."""
    live, view = trained()
    data = view.data
    curves = {curve["name"]: curve for curve in data["curves"]}
    assert len(curves["loss"]["steps"]) == 40 and len(curves["val_loss"]["steps"]) == 4
    assert data["rates"] and data["steps"] == 40 and not data["running"]
    assert curves["loss"]["values"][-1] == pytest.approx(live.recording().scalars["loss"].last, rel=1e-3)
    assert "loss" in str(view) and "<img" in view.html and view.png.startswith(b"\x89PNG")
    activations = nbdebug.show_activations(live)
    assert activations.data["frames"]["steps"] and {layer.path for layer in activations.look.layers} >= {"first", "act"}
    assert {look.name for look in nbdebug.show_gradients(live).looks.parameters} >= {"first.weight"}
    json.dumps([data, activations.data, nbdebug.show_gradients(live).data], allow_nan=False)
    view.close()


def test_long_curves_keep_their_peaks() -> None:
    """A curve of a million steps is sent as a few hundred points that keep the lowest and the highest value."""
    values = np.sin(np.arange(20_000) / 500)
    values[12_345], values[777] = 99.0, np.nan
    steps = np.arange(20_000)
    thin = thinned(Series("loss", steps, values, values, values, np.ones(20_000, int)))
    assert len(thin) == POINTS and thin.high.max() == 99 and int(thin.counts.sum()) == 20_000
    assert thin.steps[-1] == 19_999 and np.isfinite(thin.values).all()


@pytest.fixture
def own_check() -> Iterator[None]:
    """A check of the user's own that reads recordings."""

    @nbdebug.check
    def enough_steps(run: Recording, *, most: int = 30):  # type: ignore[no-untyped-def]
        """The training goes on and on.

        Why it matters: it does not.

        What to try: nothing.
        """
        if run.tally.steps > most:
            yield nbdebug.Finding(f"{run.tally.steps} steps were taken.", where="first", severity="suspect")

    yield
    registry.checks.pop("enough-steps")


@pytest.mark.usefixtures("own_check")
def test_findings_are_marked_where_they_appeared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the watch's checks find stands in the data with the step at which it was first seen, not the last one."""
    monkeypatch.setattr("nbdebug.views.live.JUDGE_SECONDS", 0.0)
    monkeypatch.setattr("nbdebug.views.live.JUDGE_SHARE", 1e9)
    monkeypatch.setattr("nbdebug.watch.live.REFRESH", 0.0)
    _, view = trained(400)
    found = {finding["check"]: finding for finding in view.data["findings"]}["enough-steps"]
    assert 30 < found["step"] < 400 and found["where"] == "first" and "400 steps" in found["says"]
    assert "enough-steps" in view.html


def test_nothing_of_the_users_changes() -> None:
    """Model, optimizer, loader and generators are bit-identical after every view."""
    model, loader = small(), digits()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    nbdebug.show_layers(small(), digits(), checks=False)  # so that everything is imported
    before = fingerprint(model, optimizer, loader)
    for view in (
        nbdebug.show_activations(model, loader),
        nbdebug.show_gradients(model, loader, nn.CrossEntropyLoss(), optimizer),
        nbdebug.show_layers(model, loader, nn.CrossEntropyLoss(), optimizer, progress=False),
    ):
        str(view), repr(view), view.html, view.data, view.png
    assert not difference(before, fingerprint(model, optimizer, loader))


def test_hostile_names_stay_texts() -> None:
    """Names of modules are data in the page and in the text."""
    model = nn.Sequential()
    model.add_module(HOSTILE.replace(".", ""), nn.Linear(64, 10))
    for view in (
        nbdebug.show_activations(model, digits()),
        nbdebug.show_gradients(model, digits()),
        nbdebug.show_layers(model, digits(), checks=False),
    ):
        assert HOSTILE not in view.html and "&lt;img src=x" in view.html
        assert HOSTILE in json.dumps(view.data)


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda: nbdebug.show_activations(small()), "loader"),
        (lambda: nbdebug.show_gradients(small(), None), "loader"),
        (lambda: nbdebug.show_gradients(7, digits()), "model"),
        (lambda: nbdebug.show_layers("model", digits()), "model"),
        (lambda: nbdebug.show_live(small()), "live"),
        (lambda: nbdebug.show_live(None), "live"),
    ],
)
def test_bad_input_is_refused(call: Any, where: str) -> None:
    """What cannot be shown is refused with a message that says what to hand over instead."""
    with pytest.raises(BadInput) as caught:
        call()
    assert caught.value.where == where


def test_what_has_no_gradient_is_said() -> None:
    """A frozen model has no gradients to show, and the message says why."""
    model = small().requires_grad_(False)
    with pytest.raises(NotApplicable, match="no gradient"):
        nbdebug.show_gradients(model, digits())
