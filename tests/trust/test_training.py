"""Training goes on to the same weights, bit by bit, as if nbdebug had never run."""

from __future__ import annotations

import random
import signal
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import nbdebug
from nbdebug.core.control import Control
from tests.trust.fingerprint import _digest
from tests.trust.trainings import TRAININGS

MOMENTS = ("before", "mid-epoch", "between epochs", "after")
QUICK = ("adamw", "accumulation", "own_generators", "frozen_batchnorm", "iterable")
FEW = ["forward-fails", "batch-mixing", "initial-loss-off", "cannot-overfit-batch"]
_reference: dict[str, dict[str, Any]] = {}


def train(name: str, look_at: dict[str, Any]) -> dict[str, Any]:
    """Run a training, look at it at these moments, and give everything that it ended with."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    setup: dict[str, Any] = {}
    for moment, setup in TRAININGS[name]():
        if moment in look_at:
            look_at[moment](setup)
    return ended_with(setup)


def ended_with(setup: dict[str, Any]) -> dict[str, Any]:
    """Return the bits of the weights, of the optimizer's state and of the generators."""
    end = {f"model {key}": _digest(value) for key, value in setup["model"].state_dict().items()}
    for index, entry in setup["optimizer"].state_dict()["state"].items():
        tensors = {key: value for key, value in entry.items() if isinstance(value, torch.Tensor)}
        end.update({f"optimizer {index} {key}": _digest(value) for key, value in tensors.items()})
    end["groups"] = repr(setup["optimizer"].state_dict()["param_groups"])
    end["generators"] = (_digest(torch.get_rng_state()), random.random(), np.random.rand())
    return end


def diagnose(setup: dict[str, Any], **options: Any) -> nbdebug.Report:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nbdebug.diagnose(**setup, progress=False, sweep_samples=64, sweep_seconds=1.0, **options)


def interrupted(setup: dict[str, Any], monkeypatch: pytest.MonkeyPatch, at: int = 40) -> None:
    """Diagnose, and press Ctrl-C in the middle of it."""
    polls, poll = 0, Control.poll

    def counting(self: Control) -> None:
        nonlocal polls
        polls += 1
        if polls == at:
            signal.raise_signal(signal.SIGINT)
        poll(self)

    with monkeypatch.context() as patch:
        patch.setattr(Control, "poll", counting)
        report = diagnose(setup)
    assert any(result.reason == "interrupted" for result in report.results)


def reference(name: str) -> dict[str, Any]:
    """Return what a training ends with when nobody looks."""
    if name not in _reference:
        _reference[name] = train(name, {})
        assert train(name, {}) == _reference[name], "this training is not reproducible by itself"
    return _reference[name]


@pytest.mark.parametrize("name", QUICK)
def test_same_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick slice: a few checks at all moments of one run, and an interrupt."""
    look_at: dict[str, Any] = dict.fromkeys(MOMENTS, lambda setup: diagnose(setup, checks=FEW))
    look_at["between epochs"] = lambda setup: interrupted(setup, monkeypatch)
    assert train(name, look_at) == reference(name)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [*MOMENTS, "interrupted in mid-epoch", "all"])
@pytest.mark.parametrize("name", TRAININGS)
def test_same_weights_whole(name: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks at each moment of each training."""
    look_at: dict[str, Any] = {moment: diagnose}
    if moment == "interrupted in mid-epoch":
        look_at = {"mid-epoch": lambda setup: [interrupted(setup, monkeypatch, at) for at in (3, 40, 150)]}
    elif moment == "all":
        look_at = dict.fromkeys(MOMENTS, diagnose)
    assert train(name, look_at) == reference(name)


def test_enough_trainings() -> None:
    assert len(TRAININGS) >= 12
