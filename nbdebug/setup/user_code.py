"""The user's own code: call it and survive what it raises, and tell it from a library's."""

from __future__ import annotations

import dis
import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import torch

from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime, described

__all__ = [
    "globals_used",
    "is_library_file",
    "is_loss",
    "is_own_file",
    "is_program_file",
    "is_users_class",
    "is_users_function",
    "methods_of",
    "names_used",
    "raised_by_user",
    "required_run",
    "required_user_code",
    "user_code",
    "writes_outside",
]

_Kinds: TypeAlias = tuple[type[Exception], ...]
_STOPS: _Kinds = (Cancelled, OutOfTime)  # no experiment may keep these to itself

_INSTALLED = frozenset(("site-packages", "dist-packages"))
_FOUNDATIONS = frozenset(("torch", "numpy", "scipy", "sklearn", "pandas"))
_PACKAGE = os.path.join(str(Path(__file__).parents[1]), "")  # and not a folder whose name only begins so


class user_code:
    """Call code of the user's in a `with` block; an exception of theirs ends the block, and what follows it runs.

    `kind` and `message` then hold what it was, and `failure` both; all are empty where there was none. nbdebug's own
    exceptions pass (with `passing`, only these), and those that stop a run always do. The exception itself is not kept,
    because its traceback holds tensors.
    """

    def __init__(self, *, passing: _Kinds = (NbdebugError,)) -> None:
        self._passing = (*_STOPS, *passing)
        self.kind = self.message = ""

    @property
    def failure(self) -> str:
        """The exception as the last line of a traceback would show it."""
        return f"{self.kind}: {self.message}" if self.kind else ""

    def __enter__(self) -> user_code:
        """Return the object that will hold the failure."""
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        """Keep what an exception of the user's says; everything else passes."""
        if not isinstance(error, Exception) or isinstance(error, self._passing):
            return False
        self.kind = type(error).__name__
        with suppress(Exception):  # a class of the user's may fail to say what it is
            self.message = str(error)
        return True


@contextmanager
def required_user_code(reason: str, *, passing: _Kinds = (NbdebugError,)) -> Iterator[None]:
    """Call code of the user's that an experiment cannot do without: what it raises becomes NotApplicable.

    `{kind}` and `{message}` in the reason stand for the type of the exception and its text.
    """
    try:
        yield
    except (*_STOPS, *passing):
        raise
    except Exception as error:
        raise NotApplicable(reason.format(kind=type(error).__name__, message=error)) from error


@contextmanager
def required_run() -> Iterator[None]:
    """Run the program for an experiment that cannot do without: what fails becomes NotApplicable, with its line."""
    try:
        yield
    except NbdebugError:
        raise
    except Exception as error:
        raise NotApplicable(f"the run fails: {described(error)}") from None


@lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    paths, built = sysconfig.get_paths(), str(Path(torch.__file__).parent)  # torch may be built in another place
    folders = (*{paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}, built, _PACKAGE)
    return tuple(os.path.join(folder, "") for folder in folders)  # and not a folder whose name only begins so


@lru_cache(maxsize=256)
def _installed_in(folder: str) -> frozenset[str]:
    """Return what was installed into a folder, as `pip install --target` does, by its first name there."""
    names = set[str]()
    with suppress(OSError, UnicodeDecodeError):
        for record in Path(folder).glob("*.dist-info/RECORD"):
            names.update(line.split("/", 1)[0].split(",", 1)[0] for line in record.read_text().splitlines())
    return frozenset(names)


@lru_cache(maxsize=4096)
def is_library_file(filename: str) -> bool:
    """Whether a file belongs to the standard library, to any installed package, or to nbdebug."""
    if filename.startswith(_library_folders()) or filename.startswith("<frozen"):
        return True
    for folder in sys.path:
        if folder and filename.startswith(os.path.join(folder, "")):
            name = os.path.relpath(filename, folder).split(os.sep, 1)[0]
            if name in _installed_in(folder):
                return True
    return not _INSTALLED.isdisjoint(Path(filename).parts)  # of another environment that is used by this one


def raised_by_user(error: BaseException) -> bool:
    """Whether an exception came out of the user's program, or of a library that it uses, called by an experiment."""
    files = _files_to(error)
    ours = max((number for number, file in enumerate(files) if is_own_file(file)), default=-1)
    return any(is_program_file(file) for file in files[ours + 1 :])


def _files_to(error: BaseException) -> list[str]:
    """Return the files of the frames that led to an exception, but for modes of nbdebug that only passed a call on."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    while frames and is_own_file(frames[-1][0].co_filename) and "func(*args" in linecache.getline(*_place(frames[-1])):
        modes = [number for number, (code, _) in enumerate(frames) if code.co_name == "__torch_function__"]
        if not modes:
            break
        frames = frames[: modes[-1]]
    return [code.co_filename for code, _ in frames]


def _place(frame: tuple[CodeType, int]) -> tuple[str, int]:
    return frame[0].co_filename, frame[1]


def is_own_file(file: str) -> bool:
    """Whether a file is nbdebug's."""
    return file.startswith(_PACKAGE)


@lru_cache(maxsize=4096)
def is_program_file(file: str) -> bool:
    """Whether a file is the user's, or of a library of models that they use: neither nbdebug's, Python's nor torch's.

    What experiments call themselves (torch, NumPy, SciPy, scikit-learn, pandas) is not the program either.
    """
    parts = Path(file).parts
    for folder in _INSTALLED:
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1].removesuffix(".py") not in _FOUNDATIONS
    return not is_library_file(file)


def is_users_function(function: Any) -> bool:
    """Whether a function was written by the user, in a notebook or in a file of their own."""
    return isinstance(function, FunctionType) and not is_library_file(function.__code__.co_filename)


def is_users_class(kind: type) -> bool:
    """Whether a class was written by the user."""
    if kind.__module__ in ("__main__", "builtins"):
        return kind.__module__ == "__main__"
    filename = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return filename is not None and not is_library_file(filename)


def is_loss(kind: type) -> bool:
    """Whether a class is a loss: one of torch's own, one derived from those, or one that is called so."""
    return any(base.__module__ == "torch.nn.modules.loss" for base in kind.__mro__) or kind.__name__.endswith("Loss")


def methods_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """Return the plain methods that the user's own classes define, the nearest definition of each name."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not is_users_class(base):
            continue
        for name, value in vars(base).items():
            if isinstance(value, FunctionType) and name not in seen and not name.startswith("__"):
                seen.add(name)
                yield name, value


@lru_cache(maxsize=4096)
def globals_used(code: CodeType) -> frozenset[str]:
    """Return the globals that a function reads or sets, also in the functions inside it; no attributes."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname.endswith(("_GLOBAL", "_NAME"))}
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return frozenset(names.union(*map(globals_used, inner)))


def names_used(code: CodeType) -> set[str]:
    """Return every name that a function looks up, also as an attribute and in the functions inside it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= names_used(const)
    return names


def writes_outside(code: CodeType, *, is_global: bool = True) -> bool:
    """Whether a function rebinds a name that is not its own: by `nonlocal`, or by `global` unless that is left out."""
    for step in dis.get_instructions(code):
        if is_global and step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return True
        if step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
            return True
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return any(writes_outside(const, is_global=is_global) for const in inner)
