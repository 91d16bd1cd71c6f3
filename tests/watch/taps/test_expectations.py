"""What may be expected, what is refused, and that values are compared without being rounded."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug

INF, NAN = float("inf"), float("nan")
BIG = 2**53 + 1  # the first whole number that no float64 holds


def holds(value: torch.Tensor, **expected: Any) -> bool:
    model = nn.Sequential(nn.Identity())
    with nbdebug.tap(model, "0").expect(**expected) as tap:
        try:
            model(value)
        except nbdebug.ExpectationFailed:
            return False
    assert not tap._broken
    return True


@pytest.mark.parametrize(
    ("value", "rises", "falls"),
    [
        (torch.tensor([3, 2, 1], dtype=torch.uint8), False, True),
        (torch.tensor([1, 2, 3], dtype=torch.uint8), True, False),
        (torch.tensor([1, 2, 2], dtype=torch.uint16), True, False),
        (torch.tensor([-INF, -INF, 0.0]), True, False),
        (torch.tensor([True, False]), False, True),
        (torch.tensor([-(2**63), 2**63 - 1]), True, False),
        (torch.tensor([1.0, NAN]), False, False),
        (torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn), True, False),
    ],
    ids=str,
)
def test_neighbors_are_compared_and_not_subtracted(value: torch.Tensor, rises: bool, falls: bool) -> None:
    assert holds(value, monotone="rising") is rises
    assert holds(value, monotone="falling") is falls


@pytest.mark.parametrize("bound", [BIG, float(BIG - 1), 2**62 + 1])
def test_whole_numbers_are_compared_exactly(bound: float) -> None:
    at, over, under = (torch.tensor([int(bound) + more]) for more in (0, 1, -1))
    assert holds(at, low=bound, high=bound)
    assert not holds(over, high=bound) and not holds(under, low=bound)


def test_bounds_beyond_a_type_and_between_whole_numbers() -> None:
    bytes_ = torch.tensor([0, 255], dtype=torch.uint8)
    assert holds(bytes_, low=-1, high=300) and holds(bytes_, low=-INF, high=INF)
    assert not holds(bytes_, low=300) and not holds(bytes_, high=-1)
    assert holds(torch.tensor([1]), low=0.5, high=1.5) and not holds(torch.tensor([1]), low=1.5)
    assert holds(torch.tensor([0.1]), low=0.1, high=0.1)  # a float32 is compared as one


@pytest.mark.parametrize(
    "made", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, lambda x: x.to(torch.float8_e5m2)]
)
def test_every_layout_and_type_can_be_asked(made: Any) -> None:
    assert holds(made(torch.tensor([[0.0, 1.0]])), finite=True, low=0)
    assert not holds(made(torch.tensor([[NAN, 1.0]])), finite=True)
    assert not holds(made(torch.tensor([[0.0, 1.0]])), positive=True)  # a zero that is left out is one


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"low": "zero"}, "a number"),
        ({"high": NAN}, "a number"),
        ({"low": True}, "a number"),
        ({"low": 2, "high": 1}, "low=1, high=2"),
        ({"shape": 5}, "is not a shape"),
        ({"shape": (..., 2, ...)}, "one [.]{3} for any"),
        ({"dtype": "flaot32"}, "dtype='float32'"),
        ({"dtype": 3}, "torch.dtype"),
        ({"finite": "yes"}, "True or False"),
        ({"positive": 1}, "True or False"),
        ({"max": 3}, "meant high"),
        ({"finit": True}, "meant finite"),
        ({"nonsense": True}, "one or more of finite, positive"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_at_once(wrong: dict[str, Any], hint: str) -> None:
    with nbdebug.tap(nn.Linear(2, 2)) as tap, pytest.raises(nbdebug.BadInput, match=hint):
        tap.expect(**wrong)


@pytest.mark.parametrize("count", [0, -1, "x", 1.5, True])
def test_counts_are_whole_numbers_from_one_on(count: Any) -> None:
    with nbdebug.tap(nn.Linear(2, 2)) as tap:
        with pytest.raises(nbdebug.BadInput, match="an integer"):
            tap.print(every=count)
        with pytest.raises(nbdebug.BadInput, match="an integer"):
            tap.break_when(lambda value: False, times=count)


def test_names_of_types_may_be_short() -> None:
    assert holds(torch.tensor([1.0]), dtype="float") and holds(torch.tensor([1]), dtype="torch.long")


@pytest.mark.parametrize("of", ["input", "output", "gradient"])
def test_the_message_has_the_line_of_the_user(tmp_path: Path, of: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import nbdebug, torch\nmodel = torch.nn.Sequential(torch.nn.Linear(2, 2))\n"
        f"nbdebug.tap(model, '0', of={of!r}).expect(high=-9)\nmodel(torch.ones(2)).sum().backward()  # here\n"
    )
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert "\n  It was seen at train.py:4: model(torch.ones(2)).sum().backward()  # here\n" in done.stderr


def test_the_line_is_shown_where_a_notebook_shows_the_message_alone() -> None:
    model = nn.Sequential(nn.Identity())
    with nbdebug.tap(model, "0").expect(high=0), pytest.raises(nbdebug.ExpectationFailed) as raised:
        model(torch.ones(2))  # this line
    error = raised.value
    assert "model(torch.ones(2))  # this line" in error._render_traceback_()[0]
    assert str(pickle.loads(pickle.dumps(error))) == str(copy.copy(error)) == str(error)
