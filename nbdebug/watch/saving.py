"""Keep a recording: as one .npz file of plain arrays, as a table, or as event files of TensorBoard."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.errors import BadInput
from nbdebug.evidence.recording import Recording
from nbdebug.watch.reading import SCHEMA, TREE, load
from nbdebug.watch.recorder.series import Series

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_frame", "curves", "load", "save", "to_tensorboard"]


def save(recording: Recording, path: Path) -> Path:
    """Write a recording; the file appears whole or not at all."""
    if path.suffix.lower() != ".npz":
        raise BadInput(
            f"{path.name!r} " + (f"ends in {path.suffix!r}" if path.suffix else "has no suffix"),
            where="live.save",
            expected="a path that ends in .npz",
            do='live.save("run.npz"); for a report, live.report().save("report.html")',
        )
    arrays: dict[str, np.ndarray] = {}
    tree = {"schema": SCHEMA, "recording": _packed(recording, arrays)}
    arrays[TREE] = np.frombuffer(json.dumps(tree, allow_nan=True).encode("utf-8"), np.uint8)
    try:
        _write(arrays, path)
    except OSError as error:
        raise BadInput(
            f"{str(path)!r} cannot be written: {error.strerror or error}",
            where="live.save",
            expected="a writable path",
            do="check the path and the free disk space; existing files are unchanged",
        ) from error
    return path


def _write(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write beside the file and put it in its place at the end; whatever comes between leaves nothing behind."""
    if path.is_dir():
        raise IsADirectoryError(f"{path.name!r} is a directory")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Take a value apart into what JSON holds; arrays go beside."""
    if isinstance(value, np.ndarray):
        arrays[f"a{len(arrays)}"] = value
        return {"array": f"a{len(arrays) - 1}"}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: _packed(getattr(value, part.name), arrays) for part in dataclasses.fields(value)}
        return {"kind": type(value).__name__, "parts": parts}
    if isinstance(value, dict):
        return {"named": [[str(key), _packed(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (tuple, list)):
        return [_packed(item, arrays) for item in value]
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def curves(recording: Recording) -> Iterator[tuple[str, str, str, Series]]:
    """Return every curve with its kind, the name of what it is about, and the statistic."""
    for kind in ("scalars", "rates", "times"):
        for name, series in getattr(recording, kind).items():
            yield kind.removesuffix("s"), name, "value", series
    for name in ("gradient", "used", "training", "graphs", "memory", "scale"):
        yield "run", name, "value", getattr(recording, name)
    for kind, parts in (("layer", recording.layers), ("parameter", recording.parameters)):
        for name, part in parts.items():
            for field in dataclasses.fields(part):
                if isinstance(getattr(part, field.name), Series):
                    yield kind, name, field.name, getattr(part, field.name)


def as_frame(recording: Recording) -> pd.DataFrame:
    """Return one row for each bucket of each curve."""
    import pandas as pd

    parts = [
        pd.DataFrame(
            {
                "kind": kind,
                "name": name,
                "statistic": statistic,
                "step": series.steps,
                "value": series.values,
                "low": series.low,
                "high": series.high,
                "count": series.counts,
            }
        )
        for kind, name, statistic, series in curves(recording)
        if len(series)
    ]
    columns = ["kind", "name", "statistic", "step", "value", "low", "high", "count"]
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return frame


def to_tensorboard(recording: Recording, folder: Path) -> Path:
    """Write every curve and the histograms of the layers as event files."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise BadInput(
            "tensorboard is not installed",
            where="live.to_tensorboard",
            expected="an environment with tensorboard",
            do="pip install tensorboard, or save the run with live.save",
        ) from error
    with SummaryWriter(str(folder)) as writer:
        for kind, name, statistic, series in curves(recording):
            tag = _tag(kind, name, statistic)
            for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
                writer.add_scalar(tag, value, step)
        for name, layer in recording.layers.items():
            _write_histograms(writer, name, layer)
    return folder


def _tag(kind: str, name: str, statistic: str) -> str:
    """Name a curve: one that is about a single number needs no statistic, whatever its name is."""
    return f"{kind}/{name}" if statistic == "value" else f"{kind}/{name}/{statistic}"


def _write_histograms(writer: Any, name: str, layer: Any) -> None:
    history = layer.histogram
    if history is None:
        return
    edges = history.edges
    for step, shares in zip(history.steps.tolist(), history.shares, strict=True):
        writer.add_histogram_raw(
            f"layer/{name}/values",
            min=float(edges[0]),
            max=float(edges[-1]),
            num=1,
            sum=0.0,
            sum_squares=0.0,
            bucket_limits=edges[1:].tolist(),
            bucket_counts=shares.tolist(),
            global_step=step,
        )
