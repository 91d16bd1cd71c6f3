"""Code of the user's: what it raises ends its block alone, and it is told from ours by where its file lies."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.control import Control
from nbdebug.errors import BadInput, Cancelled, NotApplicable, OutOfTime
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from nbdebug.setup.user_code import (
    globals_used,
    is_library_file,
    is_program_file,
    is_users_function,
    raised_by_user,
    required_user_code,
    user_code,
)

PACKAGE = Path(nbdebug.__file__).parent


def function_in(file: Path) -> Any:
    """Return a function whose code lies in this file."""
    known: dict[str, Any] = {}
    exec(compile("def f(): pass", str(file), "exec"), known)
    return known["f"]


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        (PACKAGE / "twin" / "guard.py", False),
        (PACKAGE.with_name(f"{PACKAGE.name}_experiments") / "train.py", True),
        (PACKAGE.with_name(f"{PACKAGE.name}.py"), True),
        (PACKAGE.parent / "train.py", True),
    ],
    ids=["ours", "folder beside", "file beside", "folder above"],
)
def test_only_what_lies_in_the_package_is_ours(file: Path, is_users: bool) -> None:
    """A clone may be called like the package, and so may a folder of the user's, as far as it goes."""
    assert is_program_file(str(file)) == is_users
    assert is_users_function(function_in(file)) == is_users


def test_torch_is_a_library() -> None:
    """Neither its files nor its functions are the user's."""
    assert not is_program_file(torch.nn.__file__) and not is_users_function(torch.nn.functional.relu)


def test_a_library_of_models_is_part_of_the_program() -> None:
    """An error inside of it is the program's; one in NumPy is of the call that led there."""
    packages = Path(torch.__file__).parents[1]
    models, arrays = str(packages / "models_of_others" / "net.py"), str(packages / "numpy" / "core.py")
    assert is_library_file(models) and is_program_file(models)
    assert is_library_file(arrays) and not is_program_file(arrays)


def test_what_pip_put_into_a_folder_is_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install --target` leaves a list of its files; what lies beside them is the user's."""
    (tmp_path / "models-1.0.dist-info").mkdir()
    (tmp_path / "models-1.0.dist-info" / "RECORD").write_text(
        "models/net.py,sha256=,10\nmodels-1.0.dist-info/RECORD,,\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert is_library_file(str(tmp_path / "models" / "net.py"))
    assert not is_library_file(str(tmp_path / "train.py"))


BAD_INPUT = BadInput("a list", where="model", expected="a module", do="pass one")


def test_an_exception_of_the_users_ends_the_block_and_is_described() -> None:
    with user_code() as tried:
        raise ValueError("too small")
    assert (tried.kind, tried.message, tried.failure) == ("ValueError", "too small", "ValueError: too small")


def test_what_runs_has_no_failure() -> None:
    with user_code() as tried:
        pass
    assert tried.failure == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Cancelled("stop"), OutOfTime("late")], ids=repr)
@pytest.mark.parametrize("block", [lambda: user_code(passing=()), lambda: required_user_code("it fails", passing=())])
def test_what_stops_a_run_always_passes(block: Any, error: BaseException) -> None:
    with pytest.raises(type(error)), block():
        raise error


@pytest.mark.parametrize("error", [NotApplicable("no target"), BAD_INPUT], ids=lambda error: type(error).__name__)
def test_our_own_exceptions_pass_unless_they_are_left_out(error: Exception) -> None:
    with pytest.raises(type(error)), user_code():
        raise error
    with user_code(passing=()) as tried:
        raise error
    assert tried.kind == type(error).__name__


def test_code_that_is_required_makes_the_experiment_not_applicable() -> None:
    says = r"^train_step fails: KeyError: 'x'$"
    with pytest.raises(NotApplicable, match=says) as caught, required_user_code("train_step fails: {kind}: {message}"):
        {}["x"]
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_exception_that_cannot_say_what_it_is() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with user_code() as tried:
        raise Mute
    assert tried.failure == "Mute: "


def test_a_failure_holds_no_tensors() -> None:
    """A traceback holds the frames, and these the tensors of the pass that failed."""

    def fail() -> None:
        activations = torch.ones(3)
        held.append(weakref.ref(activations))
        raise RuntimeError("out of memory")

    held: list[Any] = []
    with user_code() as tried:
        fail()
    assert tried.failure and held[0]() is None


def test_an_attribute_is_no_global() -> None:
    """A module that is called like an attribute of the function's own object is not what the function refers to."""

    def forward(self: Any, x: Any) -> Any:
        return self.model(x) + PACKAGE.loss + (lambda: torch.ones(1))()

    assert globals_used(forward.__code__) >= {"PACKAGE", "torch"}
    assert not globals_used(forward.__code__) & {"model", "loss", "ones"}


def in_file(file: Path, code: str, **names: Any) -> Any:
    """Return the function `f` of code that lies in this file."""
    known: dict[str, Any] = {"torch": torch, **names}
    exec(compile(code, str(file), "exec"), known)
    return known["f"]


OURS, THEIRS = PACKAGE / "evidence" / "x.py", PACKAGE.parent / "train.py"
TORCH = Path(torch.__file__).parent / "x.py"
LIBRARY = TORCH.parents[1] / "some_library" / "x.py"
RAISES, CALLS = "def f(): raise ValueError", "def f(): inner()"


@pytest.mark.parametrize(
    ("files", "is_users"),
    [
        ((OURS, THEIRS), True),
        ((OURS, TORCH, THEIRS), True),
        ((OURS, PACKAGE.with_name(f"{PACKAGE.name}_experiments") / "train.py"), True),
        ((OURS, TORCH, LIBRARY), True),
        ((OURS, THEIRS, TORCH), True),
        ((OURS,), False),
        ((OURS, TORCH), False),
        ((OURS, THEIRS, OURS), False),
    ],
    ids=lambda value: "-".join(p.parts[-2] for p in value) if isinstance(value, tuple) else str(value),
)
def test_whose_exception_it_is(files: tuple[Path, ...], is_users: bool) -> None:
    """What the program raises where an experiment calls it is no crash of the experiment."""
    function = in_file(files[-1], RAISES)
    for file in files[-2::-1]:
        function = in_file(file, CALLS, inner=function)
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        function()
    inside = raised.value.with_traceback(raised.tb.tb_next)  # without this test, which is the user's to them
    assert raised_by_user(inside) == is_users


def test_a_mode_that_passes_a_call_on_has_not_raised_its_exception() -> None:
    """A reshape of the user's fails inside of the tape's function mode, and is theirs all the same."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        loss: torch.Tensor = model(batch[0]).view(7, 11, -1).mean()
        return loss

    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8)), 8)
    sandbox = make_sandbox(Setup(nn.Linear(4, 2), loader, compute_loss=compute_loss), Control())
    with pytest.raises(RuntimeError, match="invalid for input") as raised:
        run_recorded(sandbox, sandbox.batch(), step=False)
    assert raised_by_user(raised.value)
