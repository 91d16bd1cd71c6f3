"""Every kind of model gets a copy that runs as the model does, trains, and shares nothing with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.errors import SandboxRefused
from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.sandbox.functional import FunctionalModel
from nbdebug.setup import Setup, unwrap
from tests.trust.setups import Case, adam, all_cases, classify, loader, mlp, rows

CASES = {case.name: case for case in all_cases()}
MODELS = [
    case for case in CASES.values() if case.make.__module__.endswith(("models", "uncopyable")) and not case.refused
]


def sandbox_of(setup: dict[str, Any]) -> Sandbox:
    return make_sandbox(Setup(**setup), Control())


def made(case: Case) -> tuple[dict[str, Any], Sandbox]:
    setup, _ = case.made()
    return setup, sandbox_of(setup)


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_shares_no_tensor(case: Case) -> None:
    setup, sandbox = made(case)
    live = {t.data_ptr() for t in (*setup["model"].parameters(), *setup["model"].buffers()) if _has_memory(t)}
    own = {t.data_ptr() for t in (*sandbox.model.parameters(), *sandbox.model.buffers()) if _has_memory(t)}
    assert not live & own
    names = [name for name, _ in unwrap(setup["model"]).named_parameters()]
    assert [name.replace("_orig_mod.", "") for name in names] == [name for name, _ in sandbox.model.named_parameters()]


def _has_memory(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, nn.UninitializedParameter) and tensor.numel() > 0


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_gives_what_the_model_gives(case: Case) -> None:
    """In eval mode and from the same seed, a copy's output is the model's, bit by bit."""
    _, sandbox = made(case)
    reference, _ = case.made()
    batch = sandbox.batch()
    model = unwrap(reference["model"])
    torch.manual_seed(1)
    with torch.no_grad(), sandbox.mode(training=False):
        given = sandbox.forward(batch)
    torch.manual_seed(1)
    with torch.no_grad():
        expected = model.eval()(*batch.args, **batch.kwargs)
    if case.name not in ("lazy", "names_a_global_generator"):  # these draw their values when they are first run
        assert torch.equal(given, expected)


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_its_optimizer_trains_it(case: Case) -> None:
    """The links hold: a step of the copied optimizer changes the copied model, and nothing of the user's."""
    setup, sandbox = made(case)
    if not any(p.requires_grad for p in sandbox.model.parameters()) or case.name == "sparse_embedding":
        pytest.skip("nothing to train, or the optimizer holds a part only")
    sandbox.ready_to_train()
    sandbox.plain_step(sandbox.batch())
    before = [p.detach().clone() for p in sandbox.model.parameters()]
    live = [p.detach().clone() for p in setup["model"].parameters() if _has_memory(p)]
    sandbox.plain_step(sandbox.batch())
    assert any(not torch.equal(a, b) for a, b in zip(before, sandbox.model.parameters(), strict=True))
    now = [p for p in setup["model"].parameters() if _has_memory(p)]
    assert all(torch.equal(a, b) for a, b in zip(live, now, strict=True))
    held = {id(p) for group in sandbox.optimizer.param_groups for p in group["params"]}
    assert held <= {id(p) for p in sandbox.model.parameters()} and held


HOW = {
    "plain": "deepcopy",
    "weight_norm_old": "deepcopy",
    "caches_a_graph_tensor": "deepcopy",
    "holds_generators": "deepcopy",
    "holds_locks": "deepcopy, with stand-ins",
    "holds_open_files": "deepcopy, with stand-ins",
    "holds_a_module_of_code": "deepcopy, with stand-ins",
    "refuses_deepcopy": "deepcopy, with stand-ins",
    "nothing_but_functional_call": "functional_call",
}


@pytest.mark.parametrize("name", HOW)
def test_each_fallback_is_used(name: str) -> None:
    _, sandbox = made(CASES[name])
    assert sandbox.how == HOW[name], sandbox.notes


class Wrapper(nn.Module):
    """Keeps a network, and decides by it what is made, as wrappers of averaged weights do."""

    def __new__(cls, network: nn.Module) -> Wrapper:
        if not isinstance(network, nn.Module):
            raise TypeError("it wraps modules")
        return super().__new__(cls)

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the network."""
        result: torch.Tensor = self.network(x)
        return result


def test_a_constructor_with_arguments_of_its_own_is_no_obstacle() -> None:
    model = Wrapper(mlp())
    sandbox = sandbox_of(classify(model))
    assert isinstance(sandbox.model, Wrapper) and sandbox.model.network is not model.network
    x = rows().tensors[0]
    assert torch.equal(sandbox.model(x), model(x))


def test_what_is_shared_is_said() -> None:
    _, sandbox = made(CASES["holds_an_unused_python_generator"])
    assert any("stream" in note and "shares it" in note for note in sandbox.notes)
    _, sandbox = made(CASES["holds_a_module_of_code"])
    assert not sandbox.notes


def test_functional_twin_taps_nothing_live() -> None:
    setup, sandbox = made(CASES["nothing_but_functional_call"])
    assert isinstance(sandbox.model, FunctionalModel)
    seen: list[str] = []
    with tapped(sandbox.model, after=lambda path, *_: seen.append(path)):
        hooks = [len(module._forward_hooks) for module in setup["model"].modules()]
        sandbox.forward(sandbox.batch())
    assert seen == ["model"] and not any(hooks)
    assert setup["model"].calls == 0 and setup["model"].history == []
    assert any("inputs and outputs" in note for note in sandbox.notes)


def test_functional_twin_keeps_statistics_and_ties() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.one, self.two = nn.BatchNorm1d(6), nn.Linear(6, 6), nn.Linear(6, 6)
            self.two.weight = self.one.weight
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps = self.steps + 1
            return self.two(self.one(self.norm(x)))

    model = Tied()
    sandbox = FunctionalModel(model)
    sandbox(torch.randn(8, 6))
    sandbox(torch.randn(8, 6))
    assert sandbox.two.weight is sandbox.one.weight
    assert float(sandbox.steps) == 2 and float(model.steps) == 0
    assert int(sandbox.norm.num_batches_tracked) == 2 and int(model.norm.num_batches_tracked) == 0
    sandbox.eval()
    sandbox(torch.randn(1, 6))
    assert model.training and model.norm.training


def test_looks_through_wrappers() -> None:
    inner = mlp()
    for wrapped in (torch.compile(inner, backend="eager"), nn.DataParallel(inner)):
        assert type(sandbox_of(classify(wrapped)).model) is nn.Sequential
    _, sandbox = made(CASES["compiled_inside"])
    assert not any("_orig_mod" in path for path, _ in sandbox.model.named_modules())


def test_taps_fire_in_a_twin_of_a_compiled_model() -> None:
    _, sandbox = made(CASES["compiled"])
    seen: list[str] = []
    with tapped(sandbox.model, after=lambda path, *_: seen.append(path)):
        sandbox.forward(sandbox.batch())
    assert seen == ["0", "1", "2", "model"]


@pytest.mark.parametrize("name", ["scripted", "traced"])
def test_scripted_inputs_and_outputs_only(name: str) -> None:
    _, sandbox = made(CASES[name])
    seen: list[str] = []
    with tapped(sandbox.model, after=lambda path, *_: seen.append(path)):
        sandbox.forward(sandbox.batch())
    assert seen == ["model"]


def test_mode_gives_every_module_its_own_back() -> None:
    _, sandbox = made(CASES["frozen_batchnorm"])
    before = [module.training for module in sandbox.model.modules()]
    assert before == [True, True, False, True, True]
    with suppress(RuntimeError), sandbox.mode(training=False):
        assert not any(module.training for module in sandbox.model.modules())
        raise RuntimeError
    assert [module.training for module in sandbox.model.modules()] == before


def test_ready_to_train() -> None:
    _, frozen = made(CASES["frozen_batchnorm"])
    frozen.ready_to_train()
    assert not frozen.model[1].training
    _, evaluated = made(CASES["left_in_eval_mode"])
    evaluated.ready_to_train()
    assert all(module.training for module in evaluated.model.modules())


def test_gradient_hooks_are_part_of_the_model() -> None:
    model = mlp()
    model[0].weight.register_hook(torch.zeros_like)
    sandbox = sandbox_of(classify(model, optimizer=adam(model)))
    sandbox.run(sandbox.batch()).loss.backward()
    assert not sandbox.model[0].weight.grad.any() and sandbox.model[2].weight.grad.any()
    assert model[0].weight.grad is None


def test_scheduler_and_optimizer_stay_linked(recwarn: pytest.WarningsRecorder) -> None:
    setup, sandbox = made(CASES["scheduler_and_groups"])
    assert sandbox.scheduler.optimizer is sandbox.optimizer
    before = setup["optimizer"].param_groups[0]["lr"]
    sandbox.plain_step(sandbox.batch())
    sandbox.scheduler.step()
    assert setup["optimizer"].param_groups[0]["lr"] == before != sandbox.optimizer.param_groups[0]["lr"]
    assert not [warning for warning in recwarn if "lr_scheduler" in str(warning.message)]


def test_lbfgs_can_step() -> None:
    setup, sandbox = made(CASES["lbfgs"])
    before = [p.detach().clone() for p in setup["model"].parameters()]
    assert isinstance(sandbox.plain_step(sandbox.batch()), float)
    assert all(torch.equal(a, b) for a, b in zip(before, setup["model"].parameters(), strict=True))


def test_too_large_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.sandbox.copying._free_bytes", lambda device: 1000)
    monkeypatch.setattr("nbdebug.sandbox.copying.TRIFLE", 0)
    with pytest.raises(SandboxRefused, match=r"needs about .* and 1\.0 kB is free"):
        sandbox_of(classify(mlp()))


def test_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that neither copies nor clones is refused with both reasons."""
    setup, _ = CASES["nothing_but_functional_call"].made()
    monkeypatch.setattr("nbdebug.sandbox.copying.FunctionalModel", lambda model: 1 / 0)
    with pytest.raises(SandboxRefused, match=r"(?s)deepcopy raises.*ZeroDivisionError.*What to do"):
        sandbox_of(setup)


def test_batches_are_fresh_for_every_twin() -> None:
    setup = Setup(mlp(), loader(rows()))
    first = make_sandbox(setup, Control()).batch()
    first.inputs["batch[0]"].zero_()
    assert make_sandbox(setup, Control()).batch().inputs["batch[0]"].any()
