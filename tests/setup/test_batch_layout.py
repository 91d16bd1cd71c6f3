"""How batches of every shape are read: what goes into the model, and what is the target."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch_layout import describe, read_batch, signature_of

X, Y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
MASK = torch.ones(5, 4, dtype=torch.bool)
Named = namedtuple("Named", ["image", "label"])
Bare = namedtuple("Bare", ["first", "second"])


class One(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Two(nn.Module):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return ids * mask


class OneMore(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return x


class OwnLoss(nn.Module):
    def forward(self, ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return ids


class Whole(nn.Module):
    def forward(self, batch: Any) -> torch.Tensor:
        return batch["x"]


class Anything(nn.Module):
    def forward(self, **inputs: Any) -> torch.Tensor:
        return inputs["ids"]


@dataclass
class Plain:
    image: torch.Tensor
    label: torch.Tensor


@dataclass(frozen=True)
class Frozen:
    image: torch.Tensor
    label: torch.Tensor


# name -> model, batch, names of the inputs, name of the target
SHAPES: dict[str, tuple[nn.Module, Any, list[str], str | None]] = {
    "pair": (One(), (X, Y), ["batch[0]"], "batch[1]"),
    "list": (One(), [X, Y], ["batch[0]"], "batch[1]"),
    "pair with meta": (One(), (X, Y, {"path": ["a"] * 5}), ["batch[0]"], "batch[1]"),
    "tensor": (One(), X, ["batch"], None),
    "one part": (One(), (X,), ["batch[0]"], None),
    "three for two": (Two(), (X, MASK, Y), ["batch[0]", "batch[1]"], "batch[2]"),
    "two for two": (Two(), (X, MASK), ["batch[0]", "batch[1]"], None),
    "three with a default": (OneMore(), (X, MASK, Y), ["batch[0]", "batch[1]"], "batch[2]"),
    "pair with a default": (OneMore(), (X, Y), ["batch[0]"], "batch[1]"),
    "nested pair": (Two(), ((X, MASK), Y), ["batch[0][0]", "batch[0][1]"], "batch[1]"),
    "nested dict": (Two(), ({"ids": X, "mask": MASK}, Y), ["batch[0].ids", "batch[0].mask"], "batch[1]"),
    "dict by name": (Two(), {"ids": X, "mask": MASK, "labels": Y}, ["ids", "mask"], "labels"),
    "dict in another order": (Two(), {"labels": Y, "mask": MASK, "ids": X}, ["mask", "ids"], "labels"),
    "dict of one": (One(), {"image": X, "label": Y}, ["image"], "label"),
    "dict with own loss": (OwnLoss(), {"ids": X, "labels": Y}, ["ids"], "labels"),
    "dict for anything": (Anything(), {"ids": X, "mask": MASK, "labels": Y}, ["ids", "mask"], "labels"),
    "whole dict": (Whole(), {"x": X, "z": MASK, "y": Y}, ["x", "z"], "y"),
    "user dict": (One(), UserDict(image=X, label=Y), ["image"], "label"),
    "dataclass": (One(), Plain(X, Y), ["image"], "label"),
    "frozen dataclass": (One(), Frozen(X, Y), ["image"], "label"),
    "named tuple by name": (One(), Named(X, Y), ["image"], "label"),
    "named tuple by place": (One(), Bare(X, Y), ["first"], "second"),
}


def read(name: str) -> tuple[Batch, list[str], str | None]:
    model, raw, inputs, target = SHAPES[name]
    return Batch(raw, read_batch(raw, signature_of(model))), inputs, target


@pytest.mark.parametrize("name", SHAPES)
def test_inputs_and_target(name: str) -> None:
    batch, inputs, target = read(name)
    assert list(batch.inputs) == inputs
    assert list(batch.targets) == ([target] if target else [])
    assert batch.has_target == (target is not None)
    assert batch.size == 5
    assert batch.reading.reason and describe(batch.reading)


@pytest.mark.parametrize("name", SHAPES)
def test_the_model_eats_it(name: str) -> None:
    batch, _, _ = read(name)
    SHAPES[name][0](*batch.args, **batch.kwargs)


@pytest.mark.parametrize("name", SHAPES)
def test_changes_are_made_to_copies(name: str) -> None:
    batch, _, target = read(name)
    kept, before = batch.clone(), type(batch.raw)
    changed = batch.map_inputs(lambda _, tensor: torch.zeros_like(tensor))
    assert all(not tensor.any() for tensor in changed.inputs.values())
    assert all(torch.equal(tensor, kept.inputs[key]) for key, tensor in batch.inputs.items())
    assert isinstance(changed.raw, before)
    picked = batch.select(torch.tensor([3, 0]))
    assert all(len(tensor) == 2 for tensor in (*picked.inputs.values(), *picked.targets.values()))
    if target:
        assert torch.equal(batch.map_targets(lambda _, t: t + 1).targets[target], batch.targets[target] + 1)


def test_a_clone_shares_nothing() -> None:
    import numpy as np

    raw = {"x": X, "meta": np.zeros(3), "y": Y}
    clone = Batch(raw, read_batch(raw, signature_of(Whole()))).clone()
    assert clone.raw["x"].data_ptr() != X.data_ptr()
    assert clone.raw["meta"] is not raw["meta"]


def test_a_container_is_rebuilt_and_never_changed() -> None:
    class Encoding(UserDict):
        def to(self, device: Any) -> Any:
            raise AssertionError("the user's container must not be told to move")

    raw = Encoding(image=X, label=Y)
    moved = Batch(raw, read_batch(raw, signature_of(One()))).to(torch.device("cpu"))
    assert isinstance(moved.raw, Encoding) and moved.raw is not raw
    assert raw["image"] is X


def test_ragged_lists_are_one_input() -> None:
    raw = ([torch.randn(2, 3), torch.randn(4, 3)], torch.tensor([0, 1]))
    batch = Batch(raw, read_batch(raw, signature_of(One())))
    assert batch.args[0] is raw[0] and batch.size == 2
    assert len(batch.select(torch.tensor([1])).raw[0]) == 1


def test_scripted_and_wrapped_signatures() -> None:
    scripted = torch.jit.script(nn.Linear(4, 2))
    assert signature_of(scripted).names == ("input",)
    assert signature_of(torch.compile(Two(), backend="eager")).names == ("ids", "mask")
    assert signature_of(nn.DataParallel(Two())).required == 2


def test_the_model_is_elsewhere_than_the_loader() -> None:
    """Batches are moved to where the model is; the meta device stands for another one."""
    setup = Setup(nn.Linear(4, 3), [(X, Y)])
    assert setup.device == torch.device("cpu")
    moved = setup.batches(1)[0].to(torch.device("meta"))
    assert moved.inputs["batch[0]"].is_meta and not X.is_meta


def two(raw: Any, asks: nn.Module) -> Batch:
    """Read a batch of two samples and take the second one."""
    return Batch(raw, read_batch(raw, signature_of(asks))).select(torch.tensor([1]))


def test_two_samples_are_not_taken_for_the_two_parts_of_the_batch() -> None:
    """A batch of two samples from the default collate is a list of two entries as well."""
    x, y = X[:2], Y[:2]
    assert [tuple(part.shape) for part in two([x, y], One()).raw] == [(1, 4), (1,)]
    inner = two([[x, x + 1], y], Two()).raw
    assert [tuple(part.shape) for part in inner[0]] == [(1, 4), (1, 4)] and inner[1].tolist() == [1]
    whole = two([[x, x[:, :1]], y], One()).raw  # a model that takes both inputs as one list
    assert [tuple(part.shape) for part in whole[0]] == [(1, 4), (1, 1)]


def test_lists_of_samples_are_picked_wherever_they_are() -> None:
    """Sequences of different lengths, images of different sizes and names are entries of a list."""
    ragged = two([[torch.ones(3), torch.ones(5)], Y[:2]], One()).raw
    assert [len(sample) for sample in ragged[0]] == [5] and ragged[1].tolist() == [1]
    images = [torch.ones(2, 4, 5), torch.ones(2, 7, 5)]
    assert [tuple(image.shape) for image in two([images, Y[:2]], One()).raw[0]] == [(2, 7, 5)]
    named = two({"x": X[:2], "names": ["a", "b"], "label": Y[:2]}, One()).raw
    assert named["names"] == ["b"] and named["label"].tolist() == [1]
