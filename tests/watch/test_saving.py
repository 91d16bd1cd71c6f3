"""A run on the disk: written whole or not at all, and refused with a reason where it is not one, or not whole."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.setup.distributed.rank_facts import RankFacts, TensorPrint
from nbdebug.watch.reading import SCHEMA
from nbdebug.watch.saving import curves, save
from tests.watch.runs import watched


@pytest.fixture(scope="module")
def live() -> nbdebug.watch.Live:
    model = nn.Sequential(nn.Linear(20, 3))
    run, _ = watched(model, torch.optim.AdamW(model.parameters(), 1e-2), 30)
    run.log(value=1e300, tokens=2**53 - 1)
    return run


@pytest.fixture
def saved(live: nbdebug.watch.Live, tmp_path: Path) -> Path:
    return live.save(tmp_path / "run.npz")


def refused(path: Any, seen: str, do: str = "") -> None:
    with pytest.raises(nbdebug.BadInput) as caught:
        nbdebug.watch.load(path)
    error = caught.value
    assert error.where == "nbdebug.watch.load" and seen in error.seen and do in error.do
    assert "pickle" not in str(error)


def test_every_number_comes_back(live: nbdebug.watch.Live, saved: Path) -> None:
    again = nbdebug.watch.load(saved)
    assert again.to_frame().equals(live.to_frame())
    for (*names, mine), (*others, theirs) in zip(curves(live.recording()), curves(again.recording()), strict=True):
        assert names == others and np.array_equal(mine.known, theirs.known) and mine.measured == theirs.measured
        assert mine.values.dtype == theirs.values.dtype
    assert again.recording().scalars["value"].last == 1e300 and again.recording().scalars["tokens"].last == 2**53 - 1


def test_ranks_come_back(live: nbdebug.watch.Live, tmp_path: Path) -> None:
    prints = (TensorPrint("w", False, (2, 3), True, 1.0, float("nan"), (0.5,)),)
    facts = RankFacts(1, prints, (3, 1), epoch=None, times={"step": (0.1, 0.2, 0.3)}, moved=("m",))
    path = save(replace(live.recording(), ranks=(facts,)), tmp_path / "run.npz")
    found = nbdebug.watch.load(path).recording().ranks[0]
    assert found.times == facts.times and found.order == (3, 1) and found.prints[0].shape == (2, 3)


# --- what is no run -------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_told(tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tmp_path / "rum.npz", f"there is no file 'rum.npz' in '{tmp_path}'", "this directory contains run.npz")
    refused(str(tmp_path / "no" / "run.npz"), f"there is no directory '{tmp_path / 'no'}'", "check the path")
    monkeypatch.chdir(tmp_path)
    refused("rum.npz", f"in '{tmp_path}'", "check the path")
    refused(".", "'.' is a directory", "pass a file")
    refused(saved / "more.npz", "there is no directory")
    refused("x" * 5000, "")
    for what in (3, None, ["run.npz"]):
        refused(what, f"the path is {type(what).__name__}")


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "text.npz": lambda path: path.write_text("step,loss\n0,1.0\n"),
    "nothing.npz": lambda path: path.write_bytes(b""),
    "arrays.npz": lambda path: np.savez(path, x=np.zeros(3)),
    "objects.npz": lambda path: np.savez(path, x=np.array([object()], dtype=object)),
    "tree.npz": lambda path: np.savez(path, tree=np.zeros(3)),
    "list.npz": lambda path: np.savez(path, tree=np.frombuffer(b"[1]", np.uint8)),
    "deep.npz": lambda path: np.savez(path, tree=np.frombuffer(b"[" * 100_000, np.uint8)),
    "array.npy": lambda path: np.save(path, np.zeros(3)),
    "object.npy": lambda path: np.save(path, np.array([object()], dtype=object), allow_pickle=True),
    "weights.pt": lambda path: torch.save(nn.Linear(2, 1).state_dict(), path),
    "thing.pkl": lambda path: path.write_bytes(pickle.dumps({"a": 1})),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_somebody_else_is_not_a_recording(name: str, tmp_path: Path) -> None:
    FOREIGN[name](tmp_path / name)
    refused(tmp_path / name, f"{name!r} is not a recording", "check the path")


def with_tree(path: Path, change: Callable[[Any], Any], **arrays: np.ndarray) -> Path:
    """Write the file again with another tree."""
    parts = dict(np.load(path)) | arrays
    tree = change(json.loads(parts["tree"].tobytes()))
    np.savez(path, **parts | {"tree": np.frombuffer(json.dumps(tree).encode(), np.uint8)})  # type: ignore[arg-type]
    return path


def test_a_file_of_another_version_is_told_so(saved: Path) -> None:
    for other in (SCHEMA - 1, SCHEMA + 1):
        with_tree(saved, lambda tree, other=other: tree | {"schema": other})
        refused(saved, f"another version of nbdebug: format {other}", "the version that wrote it")


# --- what is damaged ------------------------------------------------------------------------------------------------


def test_a_flipped_byte_is_noticed_or_does_not_matter(live: nbdebug.watch.Live, saved: Path) -> None:
    whole, chance, frame = saved.read_bytes(), random.Random(0), live.to_frame()
    noticed = 0
    for _ in range(150):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= chance.choice([0xFF, 0x01, 0x80])
        saved.write_bytes(data)
        try:
            again = nbdebug.watch.load(saved)
        except nbdebug.BadInput:
            noticed += 1
        else:
            assert again.to_frame().equals(frame)
    assert noticed > 50


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_damaged(saved: Path, share: float) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    refused(saved, "'run.npz' is damaged", "copy the file again")


def places(tree: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Return every field of everything in a tree, of each kind the first few times."""
    left: dict[str, int] = {}

    def walk(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
        if isinstance(value, list):
            for item in value:
                yield from walk(item)
        elif isinstance(value, dict) and "named" in value:
            yield from walk([item for _, item in value["named"]])
        elif isinstance(value, dict) and "kind" in value:
            left[value["kind"]] = left.get(value["kind"], 2) - 1
            if left[value["kind"]] >= 0:
                yield from ((value["parts"], name) for name in value["parts"])
            for part in value["parts"].values():
                yield from walk(part)

    return walk(tree["recording"])


WRONG = {
    "an array of three dimensions": {"array": "wrong"},
    "a tally": {"kind": "BatchTally", "parts": {}},
    "an array that is not there": {"array": "nowhere"},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_field_of_the_wrong_type_is_noticed_while_reading(saved: Path, what: str) -> None:
    tree = json.loads(np.load(saved)["tree"].tobytes())
    looked = 0
    for number, (parts, name) in enumerate(list(places(tree))):
        if number % 2 or name == "batches":
            continue
        kept, parts[name] = parts[name], WRONG[what]
        refused(with_tree(saved, lambda _: tree, wrong=np.zeros((2, 3, 4))), "is damaged")
        parts[name], looked = kept, looked + 1
    assert looked > 20
    assert nbdebug.watch.load(with_tree(saved, lambda _: tree)).recording().steps == 30


@pytest.mark.parametrize("field", ["steps", "values", "low", "high", "counts", "known"])
def test_curves_of_unequal_length_are_noticed(saved: Path, field: str) -> None:
    tree = json.loads(np.load(saved)["tree"].tobytes())
    parts = next(parts for parts, name in places(tree) if name == "known")
    array = np.load(saved)[parts[field]["array"]]
    for wrong in (array[:-1], array[None], array.astype(str), array.astype(complex)):
        parts[field] = {"array": "wrong"}
        refused(with_tree(saved, lambda _: tree, wrong=wrong), "is damaged")


@pytest.mark.parametrize(
    "recording",
    [
        {"kind": "Recording", "parts": [1]},
        {"kind": "Recording", "parts": {"model": 1, "optimizer": 2, "tally": 3}},
        {"kind": "Recording", "parts": {"model": "m", "optimizer": "o"}},
        {"kind": "Recording", "parts": {"nothing": 1}},
        {"kind": "StepTally", "parts": {"backwards_per_step": [[1]]}},
        {"kind": "StepTally", "parts": {}},
        {"kind": ["x"], "parts": {}},
        {"kind": "dataclass", "parts": {}},
        {"named": 3},
        {},
        None,
    ],
)
def test_a_tree_that_makes_no_recording_is_damaged(saved: Path, recording: Any) -> None:
    refused(with_tree(saved, lambda tree: tree | {"recording": recording}), "is damaged")


# --- writing --------------------------------------------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(
    live: nbdebug.watch.Live, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = saved.read_bytes(), np.lib.format.write_array

    def pressed(*args: Any, **kwargs: Any) -> None:
        write(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(np.lib.format, "write_array", pressed)
    with pytest.raises(KeyboardInterrupt):
        live.save(saved)
    assert saved.read_bytes() == before and os.listdir(saved.parent) == ["run.npz"]


def test_a_save_onto_a_folder_is_refused_and_leaves_nothing(live: nbdebug.watch.Live, tmp_path: Path) -> None:
    (tmp_path / "run.npz").mkdir()
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "run.npz", tmp_path / "file" / "run.npz"):
        with pytest.raises(nbdebug.BadInput, match="cannot be written") as caught:
            live.save(path)
        assert caught.value.where == "live.save"
    assert sorted(os.listdir(tmp_path)) == ["file", "run.npz"] and not os.listdir(tmp_path / "run.npz")
    with pytest.raises(nbdebug.BadInput, match="the path is int"):
        live.save(3)  # type: ignore[arg-type]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to try")
def test_a_full_disk_leaves_nothing(live: nbdebug.watch.Live, saved: Path) -> None:
    before, partial = saved.read_bytes(), saved.with_name("run.npz.partial")
    partial.symlink_to("/dev/full")
    with pytest.raises(nbdebug.BadInput, match="cannot be written: No space left"):
        live.save(saved)
    assert saved.read_bytes() == before and os.listdir(saved.parent) == ["run.npz"]


# --- TensorBoard ----------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.key(x) * self.value(x)).sum()


def test_a_layer_and_a_metric_may_be_called_value(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model = Attention()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, 4)).backward()
            optimizer.step()
            live.log(value=number)
    live.to_tensorboard(tmp_path)
    tags = set(accumulator.EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"])
    assert {"layer/value/mean", "layer/key/mean", "scalar/value", "scalar/loss", "parameter/value.bias/weight"} <= tags
    assert "scalar" not in tags and "layer/mean" not in tags
