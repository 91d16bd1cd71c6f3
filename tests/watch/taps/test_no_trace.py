"""A tap changes nothing, copies of a tapped model are free of it, and nothing is left when it is removed."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.trust.fingerprint import difference, fingerprint
from tests.trust.test_training import reference, train
from tests.trust.trainings import TRAININGS

X = torch.linspace(-1, 1, 20).view(5, 4)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(8, 3))


def all_taps(net: nn.Module) -> list[Any]:
    """Hang everything that there is on every module."""
    return [
        nbdebug.tap(net, ["model", "**"], keep=2).expect(finite=True).print(every=3, show=str),
        nbdebug.tap(net, "**", of="gradient").expect(finite=True).break_when(lambda v: False),
        nbdebug.tap(net, "**", of="input").break_when(lambda v: False),
        nbdebug.tap(net, "**").break_when(lambda v: v.isnan().any()),
    ]


def test_nothing_is_left() -> None:
    gc.collect()  # loaders that other tests have left end their processes here and not below
    net = model()
    net[0].register_forward_hook(lambda m, args, output: None)
    loss = net(X).sum()
    before, trace = fingerprint(net, loss), sys.gettrace()
    for _ in range(2):
        taps = all_taps(net)
        for tap in taps:
            tap.remove()
            tap.close()
    assert not difference(before, fingerprint(net, loss))
    assert sys.gettrace() is trace


def test_nothing_is_left_on_a_graph_that_waits_for_its_backward_pass() -> None:
    net, given = model(), X.clone().requires_grad_()
    taps = all_taps(net)
    output = net(given)
    for tap in taps:
        tap.remove()
    seen = len(taps[1].readings)
    output.sum().backward()
    assert not output._backward_hooks and len(taps[1].readings) == seen == 0


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_after_an_error(error: type[BaseException]) -> None:
    def fail(*_: Any) -> None:
        raise error

    net, trace = model().eval(), sys.gettrace()  # so that the forward itself draws nothing
    net[3].register_forward_pre_hook(fail)
    before = fingerprint(net)
    taps = all_taps(net)
    with pytest.raises(error):
        net(X)
    for tap in taps:
        tap.remove()
    assert not difference(before, fingerprint(net))
    assert sys.gettrace() is trace


@pytest.mark.parametrize("name", ["adamw", "accumulation", "lbfgs", "mixed_precision", "spectral_norm"])
def test_training_is_the_same_bit_by_bit(name: str) -> None:
    look: dict[str, Any] = {"before": lambda setup: all_taps(setup["model"])}
    assert train(name, look) == reference(name)
    assert name in TRAININGS


def test_copies_and_pickles_of_a_tapped_model_are_free_of_it() -> None:
    net = model()
    keys, expected = list(net.state_dict()), net.eval()(X)
    taps = all_taps(net)
    stream = io.BytesIO()
    torch.save(net, stream)
    stream.seek(0)
    copies = [
        copy.deepcopy(net),
        pickle.loads(pickle.dumps(net)),
        torch.load(stream, weights_only=False),
    ]
    seen = [len(tap.readings) for tap in taps]
    for sandbox in copies:
        assert torch.equal(sandbox(X), expected) and list(sandbox.state_dict()) == keys
        assert torch.equal(copy.deepcopy(sandbox)(X), expected)
    assert [len(tap.readings) for tap in taps] == seen
    assert list(net.state_dict()) == keys


def test_a_pickle_of_a_tapped_model_needs_no_nbdebug(tmp_path: Path) -> None:
    net = model().eval()
    taps = all_taps(net)
    torch.save(net, tmp_path / "model.pt")
    code = (
        "import sys, torch; sys.modules['nbdebug'] = None; "
        f"m = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False); print(m(torch.zeros(2, 4)).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "torch.Size([2, 3])" in done.stdout, done.stderr
    assert taps


def test_a_diagnosis_of_a_tapped_model_is_not_recorded() -> None:
    net = model()
    batch = (torch.randn(8, 4), torch.randint(0, 3, (8,)))
    with nbdebug.tap(net, "**") as tap:
        nbdebug.diagnose(net, [batch], nn.CrossEntropyLoss(), checks=["forward-fails"], progress=False)
    assert not tap.readings
