"""Read a recording back: nothing is unpickled, and everything is held against the types that a recording has."""

from __future__ import annotations

import dataclasses
import io
import json
import types
import typing
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.errors import BadInput
from nbdebug.evidence.optimizer_coverage import OptimizerCoverage
from nbdebug.evidence.recording import Recording, StepTally
from nbdebug.setup.distributed.rank_facts import RankFacts, TensorPrint
from nbdebug.watch.recorder.series import BatchTally, LayerSeries, OctaveHistory, ParameterSeries, Series, SilentUnits

__all__ = ["SCHEMA", "TREE", "load"]

SCHEMA = 2
TREE = "tree"  # the array that says how the others belong together
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        BatchTally, LayerSeries, OctaveHistory, OptimizerCoverage, ParameterSeries, RankFacts, Recording, Series,
        SilentUnits, StepTally, TensorPrint,
    )
}  # fmt: skip
WRITTEN = "a file written by live.save"
AGAIN = 'copy the file again from an intact source, or save the run again with live.save("run.npz")'


def load(path: Path) -> Recording:
    """Read a recording back; a file of anybody else is refused."""
    try:
        _check_place(path)
        data = path.read_bytes()
    except OSError as error:
        raise _refused(f"{path.name!r} cannot be opened: {error.strerror or error}", do="check the path") from error
    if not data.startswith(b"PK"):
        raise _not_ours(path)
    try:
        arrays = _arrays(data)
    except Exception as error:  # a file that is damaged may raise anything
        raise _damaged(path, error) from error
    if TREE not in arrays:
        raise _not_ours(path)
    try:
        tree = json.loads(arrays.pop(TREE).tobytes().decode("utf-8"))
        schema = tree["schema"]
    except Exception as error:  # JSON that is too deep is a RecursionError
        raise _not_ours(path) from error
    if schema != SCHEMA:
        raise _refused(
            f"{path.name!r} was written by another version of nbdebug: format {schema}, and this one reads {SCHEMA}",
            do="open it with the version that wrote it, or save the run again with this one",
        )
    try:
        found: Recording = _checked(_unpacked(tree["recording"], arrays), Recording, "it")
    except Exception as error:
        raise _damaged(path, error) from error
    return found


def _check_place(path: Path) -> None:
    """Refuse a path at which there is no file, with the folder in which it was looked for."""
    folder = path.absolute().parent
    if path.is_dir():
        raise _refused(
            f"{str(path)!r} is a directory", do=f'pass a file in it: nbdebug.watch.load("{path / "run.npz"}")'
        )
    if not folder.is_dir():
        raise _refused(f"there is no directory {str(folder)!r}", do="check the path")
    if not path.exists():
        others = sorted(file.name for file in folder.glob("*.npz"))[:3]
        has = f"; this directory contains {', '.join(others)}" if others else ""
        raise _refused(f"there is no file {path.name!r} in {str(folder)!r}", do=f"check the path{has}")


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    """Read the arrays of a file whole, because only then checksums are compared; none of a file that is not ours."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        if f"{TREE}.npy" not in names:
            return {}
        parts = {name.removesuffix(".npy"): io.BytesIO(archive.read(name)) for name in names}
    return {name: np.load(part, allow_pickle=False) for name, part in parts.items()}


def _unpacked(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Put together what `saving` took apart."""
    if isinstance(value, list):
        return tuple(_unpacked(item, arrays) for item in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "named" in value:
        return {key: _unpacked(item, arrays) for key, item in value["named"]}
    if value["kind"] not in KINDS:
        raise ValueError(f"it holds a {value['kind']}, which is unknown")
    kind, parts = KINDS[value["kind"]], {}
    hints = typing.get_type_hints(kind)
    for name, part in value["parts"].items():
        parts[name] = _checked(_unpacked(part, arrays), hints[name], f"{value['kind']}.{name}")
    made = kind(**parts)
    _check_lengths(made)
    return made


def _checked(value: Any, hint: Any, where: str) -> Any:
    """Return a value that is of the type that is written there."""
    if not _fits(value, hint):
        raise ValueError(f"{where} holds {type(value).__name__}")
    return value


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        expected = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(value) == len(expected) and all(map(_fits, value, expected))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if hint is float:
        return isinstance(value, (int, float))
    return isinstance(value, hint)


def _check_lengths(made: Any) -> None:
    """Refuse arrays that do not belong together, which would fail much later."""
    if not isinstance(made, (Series, OctaveHistory)):
        return
    shape = (len(made.steps), len(made.edges) - 1) if isinstance(made, OctaveHistory) else (len(made.steps),)
    for field in dataclasses.fields(made):
        array = getattr(made, field.name)
        if isinstance(array, np.ndarray):
            is_whole = field.name in ("steps", "counts", "known")
            expected = shape[:1] if is_whole else shape
            if array.shape != expected or array.dtype.kind != ("i" if is_whole else "f"):
                raise ValueError(f"{type(made).__name__}.{field.name} has shape {array.shape} and type {array.dtype}")


def _refused(seen: str, *, do: str, expected: str = WRITTEN) -> BadInput:
    return BadInput(seen, where="nbdebug.watch.load", expected=expected, do=do)


def _not_ours(path: Path) -> BadInput:
    return _refused(f"{path.name!r} is not a recording written by live.save", do="check the path")


def _damaged(path: Path, error: Exception) -> BadInput:
    return _refused(f"{path.name!r} is damaged: {type(error).__name__}: {str(error)[:200]}", do=AGAIN)
