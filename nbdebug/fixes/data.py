"""Patches of the data: apply what a transform or another loader would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.checks.data.invalid_labels import REPAIRS
from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.setup import Batch, Feed, Setup
from nbdebug.setup.sample_dataset import drawn

__all__ = ["change_batches"]

STATISTICS_SAMPLES = 1024  # samples used for means and standard deviations
BUFFER = 2048  # size of the shuffle buffer for a stream

Statistics = dict[str, tuple[torch.Tensor, torch.Tensor]]


@patch()
def standardize_inputs(setup: Setup, *, axis: int = 1) -> None:
    """Standardize every feature (the entries of this dimension) with the statistics of the training data."""
    known = _Standardizer(setup, lambda batch: batch.inputs, axis)
    change_batches(setup, lambda batch: batch.map_inputs(known.standardized))


@patch("answers")
def standardize_targets(setup: Setup) -> None:
    """Standardize the targets with the statistics of the training data."""
    known = _Standardizer(setup, lambda batch: batch.targets, 1)
    change_batches(setup, lambda batch: batch.map_targets(known.standardized))


@patch()
def scale_inputs(setup: Setup, *, factor: float) -> None:
    """Multiply every input that is not an id by a factor."""
    change_batches(
        setup,
        lambda batch: batch.map_inputs(lambda _, t: t * factor if t.is_floating_point() else t.float() * factor),
    )


@patch()
def reread_images(setup: Setup) -> None:
    """Move the channels of images from the last dimension to the first, and undo a wrong reshape."""
    change_batches(setup, lambda batch: batch.map_inputs(_channels_moved))


def _channels_moved(_: str, images: torch.Tensor) -> torch.Tensor:
    if images.dim() != 4:
        return images
    samples, channels, height, width = images.shape
    if channels <= 4 < width:  # the shape looks right, but the memory has another layout
        images = images.reshape(samples, height, width, channels)
    return images.permute(0, 3, 1, 2).contiguous()


@patch("check")
def fill_gaps(setup: Setup) -> None:
    """Replace non-finite values with zeros."""

    def filled(_: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.nan_to_num(0.0, 0.0, 0.0) if tensor.is_floating_point() else tensor

    change_batches(setup, lambda batch: batch.map_inputs(filled).map_targets(filled))


@patch("answers")
def shift_labels(setup: Setup, *, by: int) -> None:
    """Shift the class indices."""
    change_batches(setup, lambda batch: batch.map_targets(lambda _, target: target + by))


@patch("answers")
def convert_labels(setup: Setup, *, how: str) -> None:
    """Convert the labels to the format that the loss expects."""
    change_batches(setup, lambda batch: batch.map_targets(lambda _, target: REPAIRS[how](target)))


@patch("answers")
def binary_labels(setup: Setup, *, low: float) -> None:
    """Encode two classes as 0 and 1."""
    change_batches(setup, lambda batch: batch.map_targets(lambda _, target: (target > low).float()))


@patch("answers")
def shuffle(setup: Setup) -> None:
    """Shuffle the training samples in every epoch."""
    _reload(setup, shuffle=True)


@patch("answers")
def reload_batches(setup: Setup, *, size: int | None = None, drop_last: bool = False) -> None:
    """Change the batch size, or keep or drop the last incomplete batch."""
    _reload(setup, shuffle=True, batch_size=size, drop_last=drop_last)


@patch("answers")
def ignore_labels(setup: Setup, *, values: Sequence[float]) -> None:
    """Set invalid labels to -100, which cross-entropy ignores."""

    def ignored(_: str, target: torch.Tensor) -> torch.Tensor:
        bad = torch.isin(target, torch.tensor(list(values), dtype=target.dtype))
        return torch.where(bad, torch.full_like(target, -100), target)

    change_batches(setup, lambda batch: batch.map_targets(ignored))


@patch("check")
def drop_last_batch(setup: Setup) -> None:
    """Drop the last incomplete batch."""
    _reload(setup, shuffle=True, drop_last=True)


@patch("check")
def keep_every_sample(setup: Setup) -> None:
    """Keep the last incomplete batch."""
    _reload(setup, shuffle=True, drop_last=False)


def _reload(setup: Setup, shuffle: bool, batch_size: int | None = None, drop_last: bool | None = None) -> None:
    """Create a loader over the same dataset; it is never iterated itself, a feed copies what it draws from."""
    old = setup.feed.loader
    is_stream = isinstance(old, DataLoader) and isinstance(old.dataset, IterableDataset)
    if not isinstance(old, DataLoader) or setup.feed.gives_whole_batches:
        raise NotApplicable("only a DataLoader that collates samples can be re-created")
    if setup.feed.dataset is None and not is_stream:
        raise NotApplicable("only a DataLoader over a map-style or iterable dataset can be re-created")
    size = batch_size or old.batch_size or getattr(old.batch_sampler, "batch_size", None) or 32
    kept = bool(old.drop_last) if drop_last is None else drop_last
    data: Any = _ShuffleBuffer(old.dataset) if is_stream and shuffle else old.dataset
    made: Any = DataLoader(data, size, shuffle=shuffle and not is_stream, collate_fn=old.collate_fn, drop_last=kept)
    setup.feed = Feed(made, setup.feed.name)


class _ShuffleBuffer(IterableDataset[Any]):
    """A stream whose samples are shuffled in a buffer."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        """Fill the buffer; then each new sample replaces a random one, which is yielded."""
        buffer: list[Any] = []
        for sample in self.stream:
            if len(buffer) < BUFFER:
                buffer.append(sample)
                continue
            place = int(torch.randint(BUFFER, ()))
            yield buffer[place]
            buffer[place] = sample
        for place in torch.randperm(len(buffer)).tolist():
            yield buffer[place]


def change_batches(setup: Setup, change: Callable[[Batch], Batch], *, only: str = "") -> None:
    """Change every batch of every feed, as a transform of the dataset would; or those of one feed."""

    def changed(raw: Any) -> Any:
        return change(Batch(raw, setup.reading_of(raw)).clone()).raw

    def over(feed: Feed) -> Feed:
        return ChangedFeed(feed, changed) if only in ("", feed.name) else feed

    setup.feed = over(setup.feed)
    setup.val_feed = over(setup.val_feed) if setup.val_feed is not None else None
    setup.test_feed = over(setup.test_feed) if setup.test_feed is not None else None


class _Standardizer:
    """Means and standard deviations of the training data, computed on first use, when RNG state is guarded."""

    def __init__(self, setup: Setup, parts: Callable[[Batch], dict[str, torch.Tensor]], axis: int) -> None:
        self._setup, self._feed, self._parts, self._axis = setup, setup.feed, parts, axis
        self._known: Statistics | None = None

    def standardized(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Standardize a tensor; leave ids and flags unchanged."""
        if self._known is None:
            with drawing_nothing():
                self._known = self._measured()
        if name not in self._known:
            return tensor
        mean, std = (value.to(tensor.device) for value in self._known[name])
        return ((tensor.float() - mean) / std).to(tensor.dtype if tensor.is_floating_point() else torch.float32)

    def _measured(self) -> Statistics:
        found: dict[str, list[torch.Tensor]] = {}
        source = drawn(self._feed, self._setup.wrap, count=STATISTICS_SAMPLES, tell=lambda _: None)
        for item in source:
            for name, tensor in self._parts(item.batch).items():
                found.setdefault(name, []).append(tensor)
        kept = {name: tensors for name, tensors in found.items() if _is_measure(tensors)}
        return {name: _statistics(tensors, self._axis) for name, tensors in kept.items()}


def _is_measure(tensors: list[torch.Tensor]) -> bool:
    """Return whether these are measured values; integers count only where they are pixels."""
    first = tensors[0]
    pixels = first.dtype is torch.uint8 and first.dim() >= 3
    return (first.is_floating_point() or pixels) and first.dim() >= 1


def _statistics(tensors: list[torch.Tensor], axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and standard deviation per entry of one dimension, over samples and all other dimensions."""
    axis = axis % tensors[0].dim() if tensors[0].dim() > 1 else 0
    columns = [t.float().unsqueeze(-1) if t.dim() == 1 else t.float().movedim(axis, -1) for t in tensors]
    rows = torch.nan_to_num(torch.cat([c.flatten(0, -2) for c in columns]), 0.0, 0.0, 0.0)
    mean, std = rows.mean(0), rows.std(0)
    std = torch.where(std > 1e-7 * mean.abs(), std, torch.ones_like(std))  # a column may be constant
    shape = [1] * tensors[0].dim()
    shape[axis] = -1
    return mean.reshape(shape), std.reshape(shape)


class ChangedFeed(Feed):
    """Everything that another feed gives, with one change made to every batch; the feed itself stays as it is."""

    def __init__(self, feed: Feed, change: Callable[[Any], Any]) -> None:
        super().__init__(feed.loader, feed.name)
        self._inner, self._change = feed, change

    def __iter__(self) -> Iterator[Any]:
        """Draw batches from the beginning, changed."""
        return map(self._change, iter(self._inner))

    def shared(self, count: int, poll: Callable[[], None] = lambda: None) -> Iterator[Any]:
        """Yield the first batches that all experiments share, changed."""
        return map(self._change, self._inner.shared(count, poll))

    def sample(self, index: Any) -> Any:
        """Read a sample as the feed does; it is changed where it is collated."""
        return self._inner.sample(index)

    def shuffled(self, total: int) -> Any:
        """Return the random order of the feed."""
        return self._inner.shuffled(total)

    def collate(self, samples: list[Any]) -> Any:
        """Put samples together as the loader does, and change them."""
        return self._change(self._inner.collate(samples))
