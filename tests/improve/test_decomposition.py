"""Planted overfitting, underfitting, shift and an overused validation set are each named."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn

import nbdebug
from tests.improve.digits import loader_of, network, pixels, trained


def test_planted_overfitting_comes_first() -> None:
    x, y = pixels()
    model = trained(network(256), x[:60], y[:60])
    before = copy.deepcopy(model.state_dict())
    result = nbdebug.decompose(model, loader_of(x[:60], y[:60]), loader_of(x[300:900], y[300:900]), progress=False)
    assert result.errors["train"] < 0.02
    assert result.part("variance").is_sure and not result.part("avoidable bias").is_sure
    assert result.advice[0].part == "variance" and result.advice[0].steps[0].startswith("Get more training data")
    assert model.training and all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_planted_underfitting_comes_first() -> None:
    x, y = pixels()
    model = trained(nn.Sequential(nn.Linear(64, 1), nn.Linear(1, 10)), x[:900], y[:900], epochs=10)
    result = nbdebug.decompose(
        model, loader_of(x[:900], y[:900]), loader_of(x[900:], y[900:]), target_error=0.03, progress=False
    )
    assert result.advice[0].part == "avoidable bias"
    assert result.part("irreducible error").value == 0.03
    assert result.part("avoidable bias").value == pytest.approx(result.errors["train"] - 0.03)


def test_planted_shift_comes_first() -> None:
    x, y = pixels()
    model = trained(network(), x[:1000], y[:1000])
    darker = 1 - x[1400:]
    result = nbdebug.decompose(
        model,
        loader_of(x[:1000], y[:1000]),
        loader_of(x[1000:1400], y[1000:1400]),
        loader_of(darker[200:], y[1600:]),
        val_shifted=loader_of(darker[:200], y[1400:1600]),
        progress=False,
    )
    assert result.advice[0].part == "distribution shift" and result.part("distribution shift").value > 0.5
    assert not result.part("validation overfitting").is_sure
    shares = sum(part.value for part in result.parts)
    assert shares == pytest.approx(result.errors["test"])


def test_intervals_hold_the_truth() -> None:
    """Two draws from one distribution: the interval of their difference misses 0 in about one of twenty cases."""
    x, y = pixels()
    model = trained(network(8), x[:500], y[:500], epochs=5)
    missed = 0
    for trial in range(12):
        order = torch.randperm(1200, generator=torch.Generator().manual_seed(trial)) + 500
        halves = [loader_of(x[part], y[part]) for part in order.chunk(2)]
        part = nbdebug.decompose(model, halves[0], halves[1], progress=False).part("variance")
        missed += not part.low <= 0 <= part.high
    assert missed <= 3


def test_regression_and_own_metric() -> None:
    x, y = pixels()
    model = trained(network(), x[:500], y[:500], epochs=5)
    line = nn.Linear(64, 1)
    train, val = loader_of(x[:500], y[:500].float()[:, None]), loader_of(x[500:], y[500:].float()[:, None])
    assert nbdebug.decompose(line, train, val, progress=False).measure == "squared error"

    def confidence_missed(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 1 - output.softmax(1).gather(1, target[:, None])[:, 0]

    loaders = loader_of(x[:500], y[:500]), loader_of(x[500:], y[500:])
    assert nbdebug.decompose(model, *loaders, metric=confidence_missed, progress=False).measure == "confidence_missed"
    with pytest.raises(nbdebug.BadInput, match="omit the mean over the batch"):
        nbdebug.decompose(model, *loaders, metric=lambda output, target: output.mean(), progress=False)


def test_says_what_it_saw_and_what_is_missing() -> None:
    x, y = pixels()
    train, val = loader_of(x[:900], y[:900]), loader_of(x[900:], y[900:])
    result = nbdebug.decompose(network(), train, val, val, samples=100, progress=False)
    assert any("of 900 samples were evaluated" in note for note in result.notes)
    assert any("cannot be separated" in note for note in result.notes)
    assert result.to_frame().index[0] == "irreducible error"
    assert json.loads(json.dumps(result.to_dict()))["measure"] == "error rate"
    assert "avoidable bias" in str(result)


@pytest.mark.parametrize("bad", [{"target_error": -0.1}, {"target_error": "low"}, {"metric": "accuracy"}])
def test_bad_input(bad: dict[str, object]) -> None:
    x, y = pixels()
    with pytest.raises(nbdebug.BadInput, match="decompose"):
        nbdebug.decompose(network(), loader_of(x, y), loader_of(x, y), **bad)  # type: ignore[arg-type]


def test_nan_outputs_are_refused() -> None:
    x, y = pixels()
    model = network()
    with torch.no_grad():
        model[0].bias[0] = float("nan")
    line = nn.Sequential(model, nn.Linear(10, 1))
    values = loader_of(x, y.float()[:, None])
    with pytest.raises(nbdebug.BadInput, match="NaN error"):
        nbdebug.decompose(line, values, values, progress=False)


def test_advice_fits_the_model() -> None:
    """What the model leaves nothing to do about goes to the end, and the rest keeps the order of the lecture."""
    x, y = pixels()
    plain = trained(network(256), x[:60], y[:60])
    normed = trained(nn.Sequential(nn.LayerNorm(64), network(256)), x[:60], y[:60])
    loaders = loader_of(x[:60], y[:60]), loader_of(x[300:900], y[300:900])
    first, second = (nbdebug.decompose(model, *loaders, progress=False).advice[0].steps for model in (plain, normed))
    assert first[1].endswith("Here: this model has no norm layer.")
    assert second[-1].endswith("Here: this model has one norm layer.")
    assert [*second[:1], *second[1:-1]] == [first[0], *first[2:]]
