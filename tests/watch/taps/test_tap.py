"""Taps see what flows, print and assert it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import nbdebug


class Net(nn.Module):
    """Two blocks with an in-place activation, one layer that is called twice, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)) for _ in range(2)))
        self.shared, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return self.head(self.norm(self.shared(self.shared(self.encoder(x)))) * scale)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def _same_everywhere(value: Any) -> str:
    """Name a case without addresses, which differ from process to process."""
    return re.sub(r"<[^>]*> at 0x[0-9a-f]+>", "function", str(value))


X = torch.linspace(-1, 1, 20).view(5, 4)


def names(model: nn.Module, which: Any) -> list[str]:
    with nbdebug.tap(model, which) as tap:
        return list(tap.modules)


def test_modules_are_found_by_name_pattern_class_and_identity(net: Net) -> None:
    assert names(net, "encoder.1.0") == ["encoder.1.0"]
    assert names(net, "encoder.*") == ["encoder.0", "encoder.1"]
    assert names(net, "encoder.*.0") == ["encoder.0.0", "encoder.1.0"]
    assert names(net, "encoder.**") == [
        "encoder.0",
        "encoder.0.0",
        "encoder.0.1",
        "encoder.1",
        "encoder.1.0",
        "encoder.1.1",
    ]
    assert names(net, "**.1") == ["encoder.0.1", "encoder.1", "encoder.1.1"]
    assert names(net, nn.LayerNorm) == ["norm"]
    assert names(net, net.shared) == ["shared"]
    assert names(net, ["he?d", nn.LayerNorm]) == ["norm", "head"]
    assert names(net, "model") == ["model"]


@pytest.mark.parametrize(
    ("which", "hint"),
    [("encoder.9", "encoder.1"), ("hed", "head"), ("zzzz", "its modules are encoder"), (nn.LSTM, "no LSTM")],
)
def test_a_name_that_matches_nothing_gets_the_nearest(net: Net, which: Any, hint: str) -> None:
    with pytest.raises(nbdebug.BadInput, match=hint):
        nbdebug.tap(net, which)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


@pytest.mark.parametrize(
    "wrong",
    [{"of": "outputs"}, {"keep": -1}, {"every": 0}, {"pick": 3}, {"history": 1.5}],
    ids=_same_everywhere,
)
def test_what_makes_no_sense_is_refused(net: Net, wrong: dict[str, Any]) -> None:
    with pytest.raises(nbdebug.BadInput, match="Expected"):
        nbdebug.tap(net, "head", **wrong)
    with pytest.raises(nbdebug.BadInput, match=r"torch\.nn\.Module"):
        nbdebug.tap([net], "head")  # type: ignore[arg-type]


def test_values_are_those_of_the_model(net: Net) -> None:
    with (
        nbdebug.tap(net, ["encoder.0.0", "encoder.0.1"], keep=3) as outputs,
        nbdebug.tap(net, "head", of="input") as inputs,
        nbdebug.tap(net, "encoder.0.0", of="gradient") as gradients,
    ):
        given = X.clone().requires_grad_()
        for _ in range(5):
            loss = net(given).square().sum()
            loss.backward()
    raw = net.encoder[0][0](X)
    assert torch.equal(outputs.values["encoder.0.0"][-1], raw)  # not what the in-place ReLU made of it
    assert torch.equal(outputs.values["encoder.0.1"][-1], raw.relu())
    assert len(outputs.values["encoder.0.0"]) == 3
    assert inputs.value is not None and torch.allclose(net.head(inputs.value), net(X))
    weight_gradient = gradients.values["encoder.0.0"][0].T @ X
    assert net.encoder[0][0].weight.grad is not None
    assert torch.allclose(5 * weight_gradient, net.encoder[0][0].weight.grad, atol=1e-5)


def test_a_table_of_every_call(net: Net) -> None:
    with nbdebug.tap(net, "shared", keep=0) as tap:
        net(X), net.eval(), net(X)
    table = tap.to_frame()
    assert table[["step", "call", "training"]].values.tolist() == [
        [0, 0, True],
        [0, 1, True],
        [1, 0, False],
        [1, 1, False],
    ]
    assert tap.value is None and tap.values == {"shared": []}
    assert "output of shared (Linear), step 1, call 2" in repr(tap)


def test_memory_is_bounded(net: Net) -> None:
    with nbdebug.tap(net, "head", keep=2, history=5, every=3) as tap:
        for _ in range(40):
            net(X)
    assert [reading.step for reading in tap.readings] == [27, 30, 33, 36, 39]
    assert len(tap.values["head"]) == 2


def test_a_part_can_be_picked() -> None:
    lstm = nn.LSTM(4, 6, batch_first=True)
    with nbdebug.tap(lstm, pick=lambda output: output[1][0]) as tap:
        _, (hidden, _) = lstm(X.view(1, 5, 4))
    assert tap.value is not None and torch.equal(tap.value, hidden)


def test_a_module_run_alone_counts_its_own_steps(net: Net) -> None:
    with nbdebug.tap(net, "head") as tap:
        net.head(X), net.head(X)
    assert [reading.step for reading in tap.readings] == [0, 1]


def test_a_checkpoint_is_seen_once(net: Net) -> None:
    class Saving(nn.Module):
        def __init__(self, reentrant: bool) -> None:
            super().__init__()
            self.net, self.reentrant = net, reentrant

        def forward(self, x: torch.Tensor) -> Any:
            return checkpoint(self.net, x, use_reentrant=self.reentrant)

    for reentrant in (True, False):
        model = Saving(reentrant)
        with nbdebug.tap(model, "net.head") as output, nbdebug.tap(model, "net.head", of="gradient") as gradient:
            model(X.clone().requires_grad_()).sum().backward()
        assert len(output.readings) == len(gradient.readings) == 1


def test_prints_every_so_many_steps_and_when_a_condition_holds(net: Net, capsys: pytest.CaptureFixture[str]) -> None:
    with nbdebug.tap(net, "head").print(every=2), nbdebug.tap(net, "norm").print(when=lambda v: len(v) == 1):
        for rows in (5, 1, 5):
            net(X[:rows])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == [
        "output of head (Linear), step 0",
        "output of norm (LayerNorm), step 1",
        "output of head (Linear), step 2",
    ]
    assert "float32 (5, 3), mean" in printed[0]


@pytest.mark.parametrize(
    ("expected", "value", "message"),
    [
        ({"finite": True}, [1.0, float("nan"), float("inf")], r"2 of 3 are not \(\[1\]: nan, \[2\]: inf\)"),
        ({"positive": True}, [1.0, 0.0], r"positive values, but 1 of 2 are not"),
        ({"low": 0.0}, [-0.5, float("nan")], "at least 0"),
        ({"high": 1.0}, [0.5, 3.0], r"at most 1, but 1 of 2 are not \(\[1\]: 3\)"),
        ({"dtype": torch.float64}, [1.0], "the type float64, but it is float32"),
        ({"dtype": "int64"}, [1.0], "the type int64"),
        (
            {"monotone": "rising"},
            [1.0, 2.0, 1.5],
            r"rising along the last dimension, but 1 steps are not \(\[2\]: 1.5\)",
        ),
        ({"monotone": "falling"}, [2.0, 2.0, 3.0], "falling"),
        ({"shape": ("B", 3)}, [1.0, 2.0], r"the shape \(B, 3\), but the shape is \(2,\), with 1 dim"),
        ({"shape": (4,)}, [1.0, 2.0], "dimension 0 is 2"),
        ({"shape": (..., 7)}, [1.0], "any|…"),
        ({"holds": lambda v: v.sum() > 99}, [1.0], "your condition to hold"),
        ({"holds": lambda v: v.nonsense}, [1.0], "could not be evaluated: AttributeError"),
    ],
    ids=_same_everywhere,
)
def test_an_expectation_that_fails_says_where_when_and_what(
    expected: dict[str, Any], value: list[float], message: str
) -> None:
    model = nn.Sequential(nn.Identity())
    with nbdebug.tap(model, "0").expect(**expected):
        with pytest.raises(nbdebug.ExpectationFailed, match=message) as raised:
            model(torch.tensor(value))
        assert "output of 0 (Identity), step 0" in str(raised.value)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ({"finite": True}, [1, 2]),
        ({"positive": True, "low": 0.5, "high": 3, "dtype": "float32"}, [1.0, 3.0]),
        ({"monotone": "falling"}, [[3.0, 3.0], [2.0, -1.0]]),
        ({"shape": (None, "B", ...)}, [[[3.0, 3.0]]]),
        ({"shape": ("B", "B")}, [[3.0, 3.0], [3.0, 3.0]]),
        ({"holds": lambda v: v.numel() == 1}, [1.0]),
    ],
    ids=_same_everywhere,
)
def test_an_expectation_that_holds_is_silent(expected: dict[str, Any], value: Any) -> None:
    model = nn.Sequential(nn.Identity())
    with nbdebug.tap(model, "0").expect(**expected) as tap:
        model(torch.tensor(value))
    assert len(tap.readings) == 1


def test_letters_mean_one_size_within_a_step_and_may_change_between_steps(net: Net) -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[::2]

    model = nn.Sequential(nn.Linear(4, 4), Halves(), nn.Linear(4, 3))
    with nbdebug.tap(net, ["encoder.*", "head"]).expect(shape=("B", None)):
        net(X), net(X[:2])  # a last batch is smaller
    with (
        nbdebug.tap(model, "**").expect(shape=("B", None)),
        pytest.raises(nbdebug.ExpectationFailed, match="B is 3 here and 5 at 0"),
    ):
        model(X)


def test_expectations_of_gradients_stop_the_backward_pass(net: Net) -> None:
    with nbdebug.tap(net, "norm", of="gradient").expect(finite=True):
        loss = net(X).sum() * float("inf")
        with pytest.raises(nbdebug.ExpectationFailed, match="gradient of norm"):
            loss.backward()


def test_nonsense_is_not_expected(net: Net) -> None:
    with nbdebug.tap(net, "head") as tap:
        for wrong in ({}, {"monotone": "up"}, {"shape": "B"}, {"holds": 3}):
            with pytest.raises(nbdebug.BadInput):
                tap.expect(**wrong)  # type: ignore[arg-type]


def test_a_condition_that_fails_never_ends_the_training(net: Net) -> None:
    with nbdebug.tap(net, "head").print(when=lambda v: v.nonsense) as tap:
        with pytest.warns(UserWarning, match=r"tap on head is disabled.*AttributeError"):
            net(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net(X)
    assert len(tap.readings) == 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.float8_e4m3fn])
def test_every_type_of_number_can_be_read(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Identity())
    with nbdebug.tap(model, "0") as tap, warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(3, 2).to(dtype))
        model(torch.ones(0, 2).to(dtype))
    assert [reading.facts.shape for reading in tap.readings] == [(3, 2), (0, 2)]
