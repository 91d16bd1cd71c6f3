"""Every kind of model gets a twin that runs as the model does, trains, and shares nothing with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.control import Control
from nbdebug.errors import TwinRefused
from nbdebug.subject import Subject, unwrap
from nbdebug.twin import Twin, make_twin
from nbdebug.twin.functional import FunctionalModel
from nbdebug.twin.taps import tapped
from tests.trust.setups import Case, adam, all_cases, classify, loader, mlp, rows

CASES = {case.name: case for case in all_cases()}
MODELS = [
    case for case in CASES.values() if case.make.__module__.endswith(("models", "uncopyable")) and not case.refused
]


def twin_of(setup: dict[str, Any]) -> Twin:
    return make_twin(Subject(**setup), Control())


def made(case: Case) -> tuple[dict[str, Any], Twin]:
    setup, _ = case.made()
    return setup, twin_of(setup)


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_shares_no_tensor(case: Case) -> None:
    setup, twin = made(case)
    live = {t.data_ptr() for t in (*setup["model"].parameters(), *setup["model"].buffers()) if _has_memory(t)}
    own = {t.data_ptr() for t in (*twin.model.parameters(), *twin.model.buffers()) if _has_memory(t)}
    assert not live & own
    names = [name for name, _ in unwrap(setup["model"]).named_parameters()]
    assert [name.replace("_orig_mod.", "") for name in names] == [name for name, _ in twin.model.named_parameters()]


def _has_memory(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, nn.UninitializedParameter) and tensor.numel() > 0


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_gives_what_the_model_gives(case: Case) -> None:
    """In eval mode and from the same seed, a twin's output is the model's, bit by bit."""
    _, twin = made(case)
    reference, _ = case.made()
    batch = twin.batch()
    model = unwrap(reference["model"])
    torch.manual_seed(1)
    with torch.no_grad(), twin.mode(training=False):
        given = twin.forward(batch)
    torch.manual_seed(1)
    with torch.no_grad():
        expected = model.eval()(*batch.args, **batch.kwargs)
    if case.name not in ("lazy", "names_a_global_generator"):  # these draw their values when they are first run
        assert torch.equal(given, expected)


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_its_optimizer_trains_it(case: Case) -> None:
    """The links hold: a step of the copied optimizer changes the copied model, and nothing of the user's."""
    setup, twin = made(case)
    if not any(p.requires_grad for p in twin.model.parameters()) or case.name == "sparse_embedding":
        pytest.skip("nothing to train, or the optimizer holds a part only")
    twin.ready_to_train()
    twin.plain_step(twin.batch())
    before = [p.detach().clone() for p in twin.model.parameters()]
    live = [p.detach().clone() for p in setup["model"].parameters() if _has_memory(p)]
    twin.plain_step(twin.batch())
    assert any(not torch.equal(a, b) for a, b in zip(before, twin.model.parameters(), strict=True))
    now = [p for p in setup["model"].parameters() if _has_memory(p)]
    assert all(torch.equal(a, b) for a, b in zip(live, now, strict=True))
    held = {id(p) for group in twin.optimizer.param_groups for p in group["params"]}
    assert held <= {id(p) for p in twin.model.parameters()} and held


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
    _, twin = made(CASES[name])
    assert twin.how == HOW[name], twin.notes


def test_what_is_shared_is_said() -> None:
    _, twin = made(CASES["holds_an_unused_python_generator"])
    assert any("stream" in note and "shares it" in note for note in twin.notes)
    _, twin = made(CASES["holds_a_module_of_code"])
    assert not twin.notes


def test_functional_twin_taps_nothing_live() -> None:
    setup, twin = made(CASES["nothing_but_functional_call"])
    assert isinstance(twin.model, FunctionalModel)
    seen: list[str] = []
    with tapped(twin.model, after=lambda path, *_: seen.append(path)):
        hooks = [len(module._forward_hooks) for module in setup["model"].modules()]
        twin.forward(twin.batch())
    assert seen == ["model"] and not any(hooks)
    assert setup["model"].calls == 0 and setup["model"].history == []
    assert any("inputs and outputs" in note for note in twin.notes)


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
    twin = FunctionalModel(model)
    twin(torch.randn(8, 6))
    twin(torch.randn(8, 6))
    assert twin.two.weight is twin.one.weight
    assert float(twin.steps) == 2 and float(model.steps) == 0
    assert int(twin.norm.num_batches_tracked) == 2 and int(model.norm.num_batches_tracked) == 0
    twin.eval()
    twin(torch.randn(1, 6))
    assert model.training and model.norm.training


def test_looks_through_wrappers() -> None:
    inner = mlp()
    for wrapped in (torch.compile(inner, backend="eager"), nn.DataParallel(inner)):
        assert type(twin_of(classify(wrapped)).model) is nn.Sequential
    _, twin = made(CASES["compiled_inside"])
    assert not any("_orig_mod" in path for path, _ in twin.model.named_modules())


def test_taps_fire_in_a_twin_of_a_compiled_model() -> None:
    _, twin = made(CASES["compiled"])
    seen: list[str] = []
    with tapped(twin.model, after=lambda path, *_: seen.append(path)):
        twin.forward(twin.batch())
    assert seen == ["0", "1", "2", "model"]


@pytest.mark.parametrize("name", ["scripted", "traced"])
def test_scripted_inputs_and_outputs_only(name: str) -> None:
    _, twin = made(CASES[name])
    seen: list[str] = []
    with tapped(twin.model, after=lambda path, *_: seen.append(path)):
        twin.forward(twin.batch())
    assert seen == ["model"]


def test_mode_gives_every_module_its_own_back() -> None:
    _, twin = made(CASES["frozen_batchnorm"])
    before = [module.training for module in twin.model.modules()]
    assert before == [True, True, False, True, True]
    with suppress(RuntimeError), twin.mode(training=False):
        assert not any(module.training for module in twin.model.modules())
        raise RuntimeError
    assert [module.training for module in twin.model.modules()] == before


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
    twin = twin_of(classify(model, optimizer=adam(model)))
    twin.run(twin.batch()).loss.backward()
    assert not twin.model[0].weight.grad.any() and twin.model[2].weight.grad.any()
    assert model[0].weight.grad is None


def test_scheduler_and_optimizer_stay_linked(recwarn: pytest.WarningsRecorder) -> None:
    setup, twin = made(CASES["scheduler_and_groups"])
    assert twin.scheduler.optimizer is twin.optimizer
    before = setup["optimizer"].param_groups[0]["lr"]
    twin.plain_step(twin.batch())
    twin.scheduler.step()
    assert setup["optimizer"].param_groups[0]["lr"] == before != twin.optimizer.param_groups[0]["lr"]
    assert not [warning for warning in recwarn if "lr_scheduler" in str(warning.message)]


def test_lbfgs_can_step() -> None:
    setup, twin = made(CASES["lbfgs"])
    before = [p.detach().clone() for p in setup["model"].parameters()]
    assert isinstance(twin.plain_step(twin.batch()), float)
    assert all(torch.equal(a, b) for a, b in zip(before, setup["model"].parameters(), strict=True))


def test_too_large_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.twin.copying._free_bytes", lambda device: 1000)
    monkeypatch.setattr("nbdebug.twin.copying.TRIFLE", 0)
    with pytest.raises(TwinRefused, match=r"needs about .* and 1\.0 kB is free"):
        twin_of(classify(mlp()))


def test_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that neither copies nor clones is refused with both reasons."""
    setup, _ = CASES["nothing_but_functional_call"].made()
    monkeypatch.setattr("nbdebug.twin.copying.FunctionalModel", lambda model: 1 / 0)
    with pytest.raises(TwinRefused, match=r"(?s)deepcopy raises.*ZeroDivisionError.*What to do"):
        twin_of(setup)


def test_batches_are_fresh_for_every_twin() -> None:
    subject = Subject(mlp(), loader(rows()))
    first = make_twin(subject, Control()).batch()
    first.inputs["batch[0]"].zero_()
    assert make_twin(subject, Control()).batch().inputs["batch[0]"].any()
