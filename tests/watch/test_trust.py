"""A watched training is the same training, and nothing is left behind."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.trust.fingerprint import difference, fingerprint
from tests.watch.runs import batch, mlp, train

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "foreach": lambda p: torch.optim.Adam(p, 1e-2, foreach=True),
    "lbfgs": lambda p: torch.optim.LBFGS(p, 0.1, max_iter=4),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
}


class Mixed(nn.Module):
    """Dropout, a BatchNorm, in-place activations, a module called twice, an LSTM, and a parametrization."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 16))
        self.norm = nn.BatchNorm1d(16)
        self.shared = nn.Linear(16, 16)
        self.rnn = nn.LSTM(4, 8, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.first(x)))
        x = self.act(self.shared(self.drop(self.shared(x))))
        return self.head(self.rnn(x.view(len(x), 4, 4))[0][:, -1])


def run(kind: str, watch: bool, every: int | None) -> tuple[dict[str, torch.Tensor], Any, torch.Tensor]:
    """Train with validation in between; with or without a watch."""
    torch.manual_seed(1)
    model = Mixed()
    optimizer = OPTIMIZERS[kind](model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    live = nbdebug.watch(model, optimizer, every=every) if watch else None
    if live is not None:
        live.start()
    for number in range(9):
        x, y = batch(number)

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        if kind == "lbfgs":
            optimizer.step(closure)
        else:
            closure()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        if number % 3 == 2:
            model.eval()
            with torch.no_grad():
                model(x)
            model.train()
    if live is not None:
        live.stop()
        assert live.recording().steps == 9 and not live._recorder.failure
    return model.state_dict(), optimizer.state_dict(), torch.get_rng_state()


@pytest.mark.parametrize("every", [1, None, 10**9], ids=["everything", "default", "nothing"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_training_is_bit_identical(kind: str, every: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nbdebug.watch.recorder.passes.ALL_AT_FIRST", 2 if every == 10**9 else 64
    )  # the short way is soon open
    bare, watched = run(kind, False, None), run(kind, True, every)
    for name, value in bare[0].items():
        assert torch.equal(value, watched[0][name]), name
    assert torch.equal(bare[2], watched[2])
    state, other = (torch.utils._pytree.tree_leaves(found[1]) for found in (bare, watched))
    assert len(state) == len(other)
    assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(state, other, strict=True))


LOOPS = ("scaled", "accumulated", "loaded by workers", "frozen normalization", "compiled")


def looped(kind: str, watch: bool) -> tuple[dict[str, torch.Tensor], str, torch.Tensor]:
    """Train in a loop of this kind; with or without a watch of everything."""
    torch.manual_seed(2)
    model = Mixed()
    trained: Any = torch.compile(model, backend="eager") if kind == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=kind == "scaled")
    data = torch.utils.data.TensorDataset(*batch(0, 96))
    workers = 2 if kind == "loaded by workers" else 0
    loader = torch.utils.data.DataLoader(data, 16, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    if kind == "frozen normalization":
        model.norm.eval()
    with nbdebug.watch(trained, optimizer, every=1, budget=1.0) if watch else nullcontext():
        for number, (x, y) in enumerate(batch for _ in range(2) for batch in loader):
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "scaled"):
                loss = nn.functional.cross_entropy(trained(x), y)
            scaler.scale(loss).backward()
            if kind != "accumulated" or number % 3 == 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    return model.state_dict(), str(optimizer.state_dict()), torch.get_rng_state()


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_of_every_kind_are_bit_identical(kind: str) -> None:
    bare, watched = looped(kind, False), looped(kind, True)
    assert all(torch.equal(value, watched[0][name]) for name, value in bare[0].items())
    assert bare[1] == watched[1] and torch.equal(bare[2], watched[2])


@pytest.mark.parametrize("given", [True, False], ids=["given", "found"])
@pytest.mark.parametrize("how", ["clean", "error in the loop", "error in forward", "interrupt"])
def test_nothing_is_left_behind(given: bool, how: str) -> None:
    """Hooks, attributes, flags and threads are as before, whatever ended the block."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    before, threads = structure(model, optimizer), threading.active_count()

    class Stop(Exception):
        """The user's own."""

    def broken(module: Any, args: Any) -> None:
        raise KeyboardInterrupt if how == "interrupt" else Stop

    try:
        with nbdebug.watch(model, optimizer if given else None, every=1, budget=1.0):
            train(model, optimizer, 2)
            if how == "error in the loop":
                raise Stop
            if how in ("error in forward", "interrupt"):
                handle = model[3].register_forward_pre_hook(broken)
                try:
                    train(model, optimizer, 1)
                finally:
                    handle.remove()
    except (Stop, KeyboardInterrupt):
        pass
    assert hooks_of(model, optimizer) == 0
    assert structure(model, optimizer) == before and threading.active_count() == threads


@pytest.mark.parametrize("every", [1, 10**9], ids=["everything", "nothing"])
def test_tensors_that_the_user_holds_are_as_they_were(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hook stays on the last output, and all memory may be resized as before."""
    monkeypatch.setattr("nbdebug.watch.recorder.passes.ALL_AT_FIRST", 2)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    outputs = []
    model[1].register_forward_hook(lambda module, args, output: outputs.append(output))
    with nbdebug.watch(model, optimizer, every=every):
        for number in range(10):
            x, y = batch(number)
            x = x.clone()
            output = model(x)
            optimizer.zero_grad()
            nn.functional.cross_entropy(output, y).backward()
            optimizer.step()
    assert not output._backward_hooks
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    for tensor in (x, output, outputs[-1], *model.parameters(), *gradients):
        assert tensor.untyped_storage().resizable()


def test_memory_that_was_given_back_is_not_read() -> None:
    """Some models free what their backward pass computes again; whatever is at that address is not theirs."""

    class Freeing(nn.Module):
        """Gives the memory of what it got back."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(20, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.inner(x)
            answer: torch.Tensor = self.head(inner.clone())
            inner.untyped_storage().resize_(0)
            return answer

    freeing = Freeing()
    with nbdebug.watch(freeing, every=1, budget=1.0) as live:
        train(freeing, torch.optim.SGD(freeing.parameters(), 0.05), 6)
    assert not live._recorder.failure and set(live.recording().layers) == {"model", "head"}


def structure(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    """Name every attribute of every part."""
    return [sorted(vars(part)) for part in (*model.modules(), optimizer, *model.parameters())]


def test_looking_without_training_changes_nothing() -> None:
    """Everything is the same to the bit: also a graph that waits for its backward pass, generators and flags."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    x, y = batch(1)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0):  # whatever is imported first
        model(x)
    before = fingerprint(model, optimizer)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        pending = nn.functional.cross_entropy(model(x), y)
        with torch.no_grad():
            model(x)
        live.recording()
    assert not difference(before, fingerprint(model, optimizer))
    pending.backward()
    assert live.recording().tally.backwards == 0


def hooks_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Count every hook that could have been left."""
    from torch.optim import optimizer as base

    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_forward_hooks_with_kwargs")
    names += ("_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called")
    count = sum(len(getattr(module, name)) for module in model.modules() for name in names)
    count += len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
    count += len(base._global_optimizer_pre_hooks) + len(base._global_optimizer_post_hooks)
    return count + sum(len(p._backward_hooks or ()) for p in model.parameters())


def test_a_watched_model_can_be_copied_and_saved() -> None:
    """The copy is not watched, and what was saved can be read where nbdebug is not installed."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 2)
        sandbox, clone = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        copy.deepcopy(optimizer)
        file = io.BytesIO()
        torch.save(model, file)
        saved = model.state_dict()
        for other in (sandbox, clone):
            other(batch(0)[0]).sum().backward()
        assert live.step == 2 and live.recording().tally.backwards == 2
    assert not any("nbdebug" in key for key in saved)
    code = (
        "import sys, io, torch\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'nbdebug': raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "model = torch.load(io.BytesIO(sys.stdin.buffer.read()), weights_only=False)\n"
        "print(tuple(model(torch.zeros(2, 20)).shape))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=file.getvalue(), capture_output=True, timeout=240)
    assert done.stdout.decode().strip() == "(2, 3)", done.stderr.decode()


def test_watches_may_be_nested_and_repeated() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as outer:
        train(model, optimizer, 2)
        with nbdebug.watch(model, every=1, budget=1.0) as inner:
            train(model, optimizer, 3)
        train(model, optimizer, 1)
    assert (outer.step, inner.step) == (6, 3)
    first = nbdebug.watch(model, optimizer).start()
    second = nbdebug.watch(model, optimizer).start()  # the cell was run again
    train(model, optimizer, 2)
    assert not first.is_running and second.is_running
    second.stop()
    train(model, optimizer, 1)
    second.start()
    train(model, optimizer, 1)
    second.stop()
    second.stop()
    assert (first.step, second.step) == (0, 3) and list(second.recording().loss.steps) == [0, 1, 2]
    assert hooks_of(model, optimizer) == 0


def test_a_failure_of_the_recorder_ends_the_watching_and_not_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 1)
        monkeypatch.setattr(live._recorder.passes, "gather", lambda calls: 1 / 0)
        with pytest.warns(RuntimeWarning, match="is disabled"):
            losses = train(model, optimizer, 2)
        assert hooks_of(model, optimizer) == 0
    assert len(losses) == 2 and "ZeroDivisionError" in live.recording().unseen[0]


def test_validation_takes_the_same_way_through_a_transformer() -> None:
    """In eval mode a hook anywhere inside would switch the fast path off, whose numbers differ in the last bits."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    x = torch.randn(8, 6, 16)

    def evaluated() -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            found = model(x)
        model.train()
        return found

    bare = evaluated()
    with nbdebug.watch(model, optimizer, every=1, budget=1.0):
        model(x).sum().backward()
        optimizer.step()
        assert torch.equal(evaluated(), bare)
