"""Which modules are meant where names are not plain: a part called model, tied and wrapped modules, compiled ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn

import nbdebug
from nbdebug.watch.recorder.targets import target_of


class Causal(nn.Module):
    """Holds its main part under the name `model`, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.model(x))


def found(model: nn.Module, *which: Any) -> dict[str, nn.Module]:
    with nbdebug.tap(model, *which) as tap:
        return tap.modules


def test_the_model_is_told_from_a_part_called_model() -> None:
    net = Causal()
    for whole in ((), (net,), (Causal,), ("",), ("Causal",)):
        assert found(net, *whole) == {"Causal": net}
    assert found(net, "model") == {"model": net.model}
    assert found(net, "*") == found(net, "**") == {"model": net.model, "head": net.head}
    plain = nn.Sequential(nn.Linear(4, 4))
    assert found(plain) == found(plain, "model") == found(plain, plain) == {"model": plain}


def test_a_name_for_the_model_is_free() -> None:
    net = Causal()
    net.Causal = nn.Identity()
    assert found(net) == {"Causal_": net}


def test_a_recording_has_the_model_and_its_part_called_model() -> None:
    net = Causal()
    target = target_of(net, torch.optim.SGD(net.parameters(), 0.1), None)
    assert target.layers == [("Causal", net), ("model", net.model), ("head", net.head)]


def test_a_tied_module_is_found_by_each_of_its_names_and_tapped_once() -> None:
    net = nn.ModuleDict({"a": nn.Linear(2, 2), "c": nn.Linear(2, 2)})
    net["b"] = net["a"]
    assert found(net, "b") == found(net, "b*") == {"b": net["a"]}
    assert found(net, "*") == {"a": net["a"], "c": net["c"]}
    assert found(net, ["a", "b"]) == {"a": net["a"]}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of one, unless an earlier test has left one."""
    if distributed.is_initialized():
        yield
        return
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_distributed_model_is_known_by_both_kinds_of_names(group: None) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    spread = nn.parallel.DistributedDataParallel(net)
    for name in ("0", "module.0"):
        assert found(spread, name) == {"0": net[0]}
    for whole in ((), (spread,), (net,), ("module",), ("model",)):
        assert found(spread, *whole) == {"model": net}
    with nbdebug.tap(spread, "**") as tap:
        spread(torch.ones(3, 4))
    assert [(r.name, r.step) for r in tap.readings] == [("0", 0), ("1", 0)]
    with pytest.raises(nbdebug.BadInput, match="compiled"):
        nbdebug.tap(nn.parallel.DistributedDataParallel(torch.compile(net, backend="eager")), "0")


def compiled_forward() -> nn.Module:
    net = Causal()
    net.forward = torch.compile(net.forward, backend="eager")  # type: ignore[method-assign]
    return net


def compiled_part(name: str, *, in_place: bool = False) -> nn.Module:
    net = nn.ModuleDict({"part": Causal()})
    if in_place:
        net["part"].compile(backend="eager")
    else:
        net["part"] = torch.compile(net["part"], backend="eager")
    assert name in dict(net.named_modules())
    return net


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: torch.compile(Causal(), backend="eager"), "head"),
        (compiled_forward, "head"),
        (lambda: compiled_part("part._orig_mod.head"), "part._orig_mod.head"),
        (lambda: compiled_part("part.head", in_place=True), "part.head"),
        (lambda: compiled_part("part", in_place=True), "part"),
    ],
    ids=["model", "forward", "part", "part in place", "part in place as a whole"],
)
def test_what_compiled_code_runs_is_refused_rather_than_passed_by(made: Callable[[], nn.Module], name: str) -> None:
    net = made()
    with pytest.raises(nbdebug.BadInput, match="compiled code skips the hooks"):
        nbdebug.tap(net, name)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_what_python_runs_beside_compiled_code_is_seen() -> None:
    net = nn.Sequential(torch.compile(nn.Linear(4, 4), backend="eager"), nn.Linear(4, 4))
    net[1].forward = torch.compiler.disable(net[1].forward)
    with nbdebug.tap(net, ["0", "1"]) as tap:
        net(torch.ones(3, 4))
    assert [r.name for r in tap.readings] == ["0", "1"]
    whole = compiled_forward()
    with nbdebug.tap(whole) as tap:
        whole(torch.ones(3, 4))
    assert [r.name for r in tap.readings] == ["Causal"]


def test_scripted_modules_are_refused() -> None:
    with pytest.raises(nbdebug.BadInput, match="does not call hooks"):
        nbdebug.tap(torch.jit.trace(Causal(), torch.ones(3, 4)), "head")
