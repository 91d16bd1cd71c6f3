"""A copy runs its own weights, whoever wrapped or patched the model; where it cannot, that is said."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

import nbdebug
from nbdebug.core.control import Control
from nbdebug.errors import SandboxRefused
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.sandbox.guard import guarded
from nbdebug.setup import Setup
from nbdebug.setup.careful_copy import careful_copy
from tests.sandbox.patching_library import LEAKS, LIBRARY, PATCHES
from tests.sandbox.wrapped_models import INPUTS, MODELS, Net, made, setup_of
from tests.trust.fingerprint import difference, fingerprint


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[types.ModuleType]:
    file = tmp_path_factory.mktemp("env") / "lib" / "site-packages" / "patching_library.py"
    file.parent.mkdir(parents=True)
    file.write_text(LIBRARY)
    spec = importlib.util.spec_from_file_location("patching_library", Path(file))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[module.__name__]


def assert_runs_its_own_weights(setup: dict[str, Any]) -> None:
    """Train the copy: its outputs change, no byte of the original does, and nothing of the original is entered."""
    live = setup["model"]
    before = fingerprint(live, setup["optimizer"])
    entered: list[str] = []
    names = {id(module): name for name, module in live.named_modules() if any(True for _ in module.parameters())}
    held = Setup(**setup)
    sandbox = make_sandbox(held, Control())
    watch = nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: entered.append(names[id(module)]) if id(module) in names else None
    )
    try:
        batch = sandbox.batch()
        first = outputs_of(sandbox)
        for _ in range(3):
            sandbox.plain_step(batch)
        second = outputs_of(sandbox)
    finally:
        watch.remove()
    assert not entered and not any(held.isolation.values()) and "a forward pass" in held.isolation
    assert not torch.equal(first, second)
    assert not [line for line in difference(before, fingerprint(live, setup["optimizer"])) if "generator" not in line]


def outputs_of(sandbox: Sandbox) -> torch.Tensor:
    with torch.no_grad(), sandbox.mode(training=False):
        predicted = sandbox.run(sandbox.batch()).predicted
    assert predicted is not None
    return predicted.clone()


def assert_sound(setup: dict[str, Any]) -> None:
    report = nbdebug.diagnose(**setup, progress=False)
    assert not [result for result in report.results if result.status == "crashed"]
    assert [(f.check, f.says) for f in report.findings if f.severity != "note"] == []
    assert not [note for note in report.notes if "on its own" in note or "ATTENTION" in note]


@pytest.mark.parametrize("name", MODELS)
def test_libraries(name: str) -> None:
    assert_runs_its_own_weights(made(MODELS[name]))


@pytest.mark.parametrize("name", MODELS)
def test_libraries_are_sound(name: str) -> None:
    assert_sound(made(MODELS[name]))


@pytest.mark.parametrize("name", PATCHES)
def test_patches(name: str, library: types.ModuleType) -> None:
    setup = made(lambda: getattr(library, name)(Net()))
    assert_runs_its_own_weights(setup)
    if name == "counting":
        assert setup["model"].count() == 0
    assert_sound(setup)


@pytest.mark.parametrize("name", LEAKS)
def test_what_cannot_be_isolated_is_said(name: str, library: types.ModuleType) -> None:
    setup = made(lambda: getattr(library, name)(Net()))
    before = fingerprint(setup["model"], setup["optimizer"])
    report = nbdebug.diagnose(**setup, progress=False)
    changed = difference(before, fingerprint(setup["model"], setup["optimizer"]))
    assert not [line for line in changed if not line.startswith("environment")]
    notes = [note for note in report.notes if "does not run on its own" in note]
    assert len(notes) == 1 and "What to do" in notes[0] and f"on the copy {LEAKS[name]} of your" in notes[0]
    assert not [f for f in report.findings if f.severity != "note"]
    results = {result.check: result for result in report.results}
    for check in ("forward-fails", "untrained-parameters", "cannot-overfit-batch", "clamped-output"):
        assert results[check].status == "skipped" and "does not run on its own" in results[check].reason
    assert results["unshuffled-loader"].status == "clean"  # it needs no copy


def test_a_handler_of_the_users_does_not_hide_it(library: types.ModuleType) -> None:
    sandbox = make_sandbox(Setup(**made(lambda: library.in_a_registry(Net()))), Control())
    forward = sandbox.model.forward

    def forgiving(x: torch.Tensor) -> Any:
        try:
            return forward(x)
        except Exception:
            return torch.zeros(len(x), 4)

    sandbox.model.forward = forgiving
    with pytest.raises(SandboxRefused, match="does not run on its own"):
        sandbox.forward(sandbox.batch())
    with pytest.raises(SandboxRefused, match="does not run on its own"):
        sandbox.fresh()


def test_a_step_that_reaches_the_model_is_ended_before_it_writes(library: types.ModuleType) -> None:
    live = Net()
    library.MODELS["main"] = live
    setup = made(lambda: live)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
        with torch.no_grad():
            library.MODELS["main"].fc1.weight.add_(1)
        return loss

    before = fingerprint(live)
    report = nbdebug.diagnose(**setup, train_step=step, checks=["step-never-taken"], progress=False)
    assert not difference(before, fingerprint(live))
    assert any("train_step on the copy used the parameter fc1.weight" in note for note in report.notes)


def test_functions_of_libraries_keep_their_globals(library: types.ModuleType) -> None:
    sandbox = make_sandbox(Setup(**made(lambda: library.closure(Net()))), Control())
    assert sandbox.model.forward.__globals__ is vars(library)


def test_nothing_is_left_of_the_watch() -> None:
    hooks, modes = dict(nn.modules.module._global_forward_pre_hooks), torch._C._len_torch_function_stack()
    assert_runs_its_own_weights(made(Net))
    assert dict(nn.modules.module._global_forward_pre_hooks) == hooks
    assert torch._C._len_torch_function_stack() == modes


def test_a_model_that_trains_in_another_thread_is_no_leak() -> None:
    setup = made(Net)
    sandbox = make_sandbox(Setup(**setup), Control())

    def also_trained(module: nn.Module, args: Any) -> None:
        thread = threading.Thread(target=setup["model"], args=(INPUTS[:2],))
        thread.start()
        thread.join()

    sandbox.model.register_forward_pre_hook(also_trained)
    sandbox.forward(sandbox.batch())
    assert not any(sandbox.setup.isolation.values())


def test_two_interrupts_while_it_watches() -> None:
    """Neither the global hook nor the mode outlives the experiment, at whatever line Ctrl-C is pressed twice."""
    setup = made(Net)
    hooks, modes = dict(nn.modules.module._global_forward_pre_hooks), torch._C._len_torch_function_stack()
    for at in range(1, 1000):
        pressing = Pressing(at)
        sandbox = make_sandbox(Setup(**setup), Control())
        batch = sandbox.batch()
        traced = sys.gettrace()
        sys.settrace(pressing.trace)
        try:
            with suppress(KeyboardInterrupt):
                guarded(lambda sandbox=sandbox, batch=batch: sandbox.forward(batch), (), sandbox.control)
        finally:
            sys.settrace(traced)
        assert dict(nn.modules.module._global_forward_pre_hooks) == hooks, f"line {at}"
        assert torch._C._len_torch_function_stack() == modes, f"line {at}"
        if pressing.seen < at:
            break
    assert 200 < at < 999


class Pressing:
    """Presses Ctrl-C twice at the n-th line of the watch, and of torch's own code that turns a mode on or off."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(
            ("sandbox/isolation.py", "sandbox/weight_perturbation.py", "torch/overrides.py", "utils/hooks.py")
        ):
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self.at:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
        return self.trace


def test_accelerate_in_a_training_step() -> None:
    """The step names the accelerator, which holds the model; the copy gets an accelerator of its own."""
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    setup = made(Net)
    names = ("model", "optimizer", "loader")
    setup |= dict(zip(names, accelerator.prepare(*(setup[name] for name in names)), strict=True))
    model, optimizer = setup["model"], setup["optimizer"]

    def step(_: Any, batch: Any, loss_fn: Any, __: Any) -> torch.Tensor:
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss

    before = fingerprint(model, optimizer.optimizer)
    assert_sound(setup | {"train_step": step})
    assert not difference(before, fingerprint(model, optimizer.optimizer))
    assert accelerator.step == 0 and accelerator._models == [model]


def test_ids_in_a_memo_are_never_used_again() -> None:
    """What copying knows by its id has to stay alive; the list that keeps it so is known by the memo's own id."""
    memo: dict[int, Any] = {}
    careful_copy([nn.Linear(2, 2), [1]], memo, [])
    lists = [key for key, value in memo.items() if isinstance(value, list) and any(id(v) in memo for v in value)]
    assert lists == [id(memo)]


@pytest.mark.parametrize("check", ["unusual-optimizer", "parameters-missing-from-optimizer"])
def test_a_fix_of_a_wrapped_optimizer_leaves_it_as_it_was(check: str) -> None:
    """The groups of accelerate's optimizer are those of the one inside, which a fix must not reach."""
    torch.manual_seed(0)
    model = Net()
    held = list(model.parameters())
    lr = 0.0 if check == "unusual-optimizer" else 1e-2
    optimizer = torch.optim.Adam(held if lr == 0 else held[:-2], lr)
    setup = setup_of(model) | {"optimizer": optimizer}
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    names = ("model", "optimizer", "loader")
    setup |= dict(zip(names, accelerator.prepare(*(setup[name] for name in names)), strict=True))
    before = fingerprint(setup["model"], setup["optimizer"])
    groups = [(group["lr"], len(group["params"])) for group in setup["optimizer"].param_groups]
    report = nbdebug.diagnose(**setup, checks=[check], progress=False)
    verification = report.findings[0].verify(progress=False)
    changed = difference(before, fingerprint(setup["model"], setup["optimizer"]))
    assert not [line for line in changed if not line.startswith("environment") and "generator" not in line]
    assert [(group["lr"], len(group["params"])) for group in setup["optimizer"].param_groups] == groups
    assert verification.verdict == "verified"
