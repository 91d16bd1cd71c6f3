"""Patches of a data set: wrap it, so that samples are copied, left out, or lose a column."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nbdebug.errors import NotApplicable
from nbdebug.experiments.split_codes import column_codes_changed
from nbdebug.fixes import patch
from nbdebug.fixes.data import change_batches
from nbdebug.setup import Feed, Setup
from nbdebug.setup.dataset_origin import read_like
from nbdebug.setup.feature_rows import digests_of
from nbdebug.setup.object_graph import arrays_in
from nbdebug.setup.sample_dataset import seed_all

__all__: list[str] = []

MOST_SAMPLES = 20_000  # that are read to find copies
_COLUMN = re.compile(r"^(?P<name>.*)\[:, (?P<column>\d+)\]$")


class _Copied(Dataset[Any]):
    """Samples as copies, and the stored ones as they were before they were read."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        """Read a sample, copy it, and restore the rows of its index that reading has changed."""
        rows = [a for a in arrays_in(self.dataset) if getattr(a, "shape", ()) and len(a) == len(self.dataset)]
        before = [copy.deepcopy(array[index]) for array in rows]
        sample = copy.deepcopy(self.dataset[index])
        for array, row in zip(rows, before, strict=True):
            array[index] = row
        return sample


class _Picked(Dataset[Any]):
    """Some of the samples of a data set."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        """Read a sample."""
        return self.dataset[self.indices[index]]


@patch("check")
def copy_samples(setup: Setup) -> None:
    """Return every sample as a copy, and leave what the data set stores unchanged."""
    _wrap(setup, _Copied)


@patch("clean")
def remove_copies(setup: Setup, *, split: str = "") -> None:
    """Leave out training samples that occur a second time, or those that occur in a held-out split."""
    known = set(_digests(setup, _feed_of(setup, split))) if split else set()
    kept = list[int]()
    for index, digest in enumerate(_digests(setup, setup.feed)):
        if digest not in known:
            kept.append(index)
        if not split:
            known.add(digest)
    if len(kept) < 2:
        raise NotApplicable("no training samples would be left")
    _wrap(setup, lambda dataset: _Picked(dataset, kept))


@patch("clean")
def remove_columns(setup: Setup, *, columns: Sequence[str]) -> None:
    """Set these columns of the inputs to zero, which takes away what they say."""
    found = [match for match in map(_COLUMN.match, columns) if match is not None]
    if len(found) != len(columns):
        raise NotApplicable(f"{', '.join(columns)} are no columns of a table")

    def without(name: str, tensor: torch.Tensor) -> torch.Tensor:
        own = [int(match["column"]) for match in found if match["name"] == name]
        if not own or tensor.dim() < 2:
            return tensor
        flat = tensor.clone().reshape(len(tensor), -1)
        flat[:, own] = 0
        return flat.reshape(tensor.shape)

    change_batches(setup, lambda batch: batch.map_inputs(without))


@patch("clean")
def scale_split(setup: Setup, *, split: str, name: str, factor: float, shift: float = 0.0) -> None:
    """Multiply one input of a held-out split by a factor and shift it, as its missing preprocessing would."""

    def scaled(own: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() * factor + shift if own == name else tensor

    _feed_of(setup, split)
    change_batches(setup, lambda batch: batch.map_inputs(scaled), only=split)


@patch("answers")
def read_like_validation(setup: Setup) -> None:
    """Read the training samples as the validation data are read, without augmentation."""
    found = [feed for like in setup.feeds[1:] if (feed := read_like(setup.feed, like)) is not None]
    if not found:
        raise NotApplicable("no other split has the data set of the training data with other transforms")
    _wrap(setup, lambda _: found[0].dataset)


@patch("clean")
def rename_split(setup: Setup, *, split: str, names: Sequence[Sequence[int]]) -> None:
    """Give the classes of a held-out split other numbers, as the label map of the training data would."""
    numbers = {int(old): int(new) for old, new in names}

    def renamed(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            return tensor
        return tensor.clone().apply_(lambda label: numbers.get(int(label), int(label)))

    _feed_of(setup, split)
    change_batches(setup, lambda batch: batch.map_targets(renamed), only=split)


@patch("clean")
def reorder_split(setup: Setup, *, split: str, order: Sequence[int]) -> None:
    """Take the columns of a held-out table, or the channels of images, in the order of the training data."""

    def reordered(_: str, tensor: torch.Tensor) -> torch.Tensor:
        is_one = tensor.dim() in (2, 4) and tensor.shape[1] == len(order)
        return tensor[:, list(order)] if is_one and (tensor.dim() == 4 or tensor.is_floating_point()) else tensor

    _feed_of(setup, split)
    change_batches(setup, lambda batch: batch.map_inputs(reordered), only=split)


@patch("clean")
def recode_split(setup: Setup, *, split: str, columns: Sequence[Sequence[Any]]) -> None:
    """Give the categories of a held-out split the numbers that they have in the training data."""
    maps = {(name, index): {int(a): int(b) for a, b in codes} for name, index, codes in columns}

    def changed(name: str, tensor: torch.Tensor) -> torch.Tensor:
        for (column, index), codes in maps.items():
            tensor = column_codes_changed(tensor, index, codes) if column == name else tensor
        return tensor

    _feed_of(setup, split)
    change_batches(setup, lambda batch: batch.map_inputs(changed), only=split)


def _feed_of(setup: Setup, split: str) -> Feed:
    found = next((feed for feed in setup.feeds if feed.name == split), None)
    if found is None:
        raise NotApplicable(f"there is no {split}")
    return found


def _digests(setup: Setup, feed: Feed) -> list[Any]:
    """Read every sample of a feed once and return the digests of their inputs."""
    dataset = feed.dataset
    if dataset is None or feed.total is None or feed.total > MOST_SAMPLES or feed.gives_whole_batches:
        raise NotApplicable("the samples cannot be read one by one, or there are too many")
    indices = feed.within if feed.within is not None else range(feed.total)
    found = []
    for index in indices:
        seed_all(0)
        found.append(tuple(digests_of(setup.wrap(feed.collate([dataset[index]])))))
    return found


def _wrap(setup: Setup, wrapper: Callable[[Any], Any]) -> None:
    """Draw the training samples from a wrapped copy of the data set."""
    old, dataset = setup.feed.loader, setup.feed.dataset
    if not isinstance(old, DataLoader) or isinstance(old.dataset, IterableDataset) or dataset is None:
        raise NotApplicable("only a DataLoader over a map-style dataset can be re-created")
    live = {id(array) for array in arrays_in(old.dataset)}
    if any(id(array) in live for array in arrays_in(dataset)):
        raise NotApplicable("the dataset cannot be copied, and reading may modify it")
    if setup.feed.gives_whole_batches or not setup.feed.draws_everything:
        raise NotApplicable("a sampler of your own chooses the samples by their index")
    shuffled = isinstance(old.sampler, torch.utils.data.RandomSampler)
    made: Any = DataLoader(
        wrapper(dataset), old.batch_size or 32, shuffle=shuffled, collate_fn=old.collate_fn, drop_last=old.drop_last
    )
    setup.feed = Feed(made, setup.feed.name)
