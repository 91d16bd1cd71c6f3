"""Patches of the data: what a transform or another loader would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.errors import NotApplicable
from nbdebug.importing import drawing_nothing
from nbdebug.probes.label_trials import REPAIRS
from nbdebug.remedies import patch
from nbdebug.subject import Batch, Feed, Subject
from nbdebug.subject.changed import ChangedFeed
from nbdebug.subject.drawing import drawn

__all__: list[str] = []

LOOKED_AT, SECONDS = 1024, 4.0  # samples that means and spreads are taken from
BUFFER = 2048  # samples of a stream that wait to be drawn

Statistics = dict[str, tuple[torch.Tensor, torch.Tensor]]


@patch()
def standardise_inputs(subject: Subject, *, axis: int = 1) -> None:
    """Bring every feature (the entries of this dimension) to mean 0 and spread 1, by the training data."""
    known = _Lazily(subject, lambda batch: batch.inputs, axis)
    _change(subject, lambda batch: batch.map_inputs(known.standardised))


@patch("answers")
def standardise_targets(subject: Subject) -> None:
    """Bring the targets to mean 0 and spread 1, by the training data."""
    known = _Lazily(subject, lambda batch: batch.targets, 1)
    _change(subject, lambda batch: batch.map_targets(known.standardised))


@patch()
def scale_inputs(subject: Subject, *, factor: float) -> None:
    """Multiply every input that is no id."""
    _change(
        subject,
        lambda batch: batch.map_inputs(lambda _, t: t * factor if t.is_floating_point() else t.float() * factor),
    )


@patch()
def reread_images(subject: Subject) -> None:
    """Move the channels of pictures from the last dimension to the first, and undo a reshaping that only claimed to."""
    _change(subject, lambda batch: batch.map_inputs(_channels_moved))


def _channels_moved(_: str, pictures: torch.Tensor) -> torch.Tensor:
    if pictures.dim() != 4:
        return pictures
    samples, channels, height, width = pictures.shape
    if channels <= 4 < width:  # it looks right, but the values lie in the order of another shape
        pictures = pictures.reshape(samples, height, width, channels)
    return pictures.permute(0, 3, 1, 2).contiguous()


@patch("check")
def fill_gaps(subject: Subject) -> None:
    """Put zeros in the places of values that are no numbers."""

    def filled(_: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.nan_to_num(0.0, 0.0, 0.0) if tensor.is_floating_point() else tensor

    _change(subject, lambda batch: batch.map_inputs(filled).map_targets(filled))


@patch("answers")
def shift_labels(subject: Subject, *, by: int) -> None:
    """Count the classes from another number on."""
    _change(subject, lambda batch: batch.map_targets(lambda _, target: target + by))


@patch("answers")
def convert_labels(subject: Subject, *, how: str) -> None:
    """Write the labels in the form that the loss means."""
    _change(subject, lambda batch: batch.map_targets(lambda _, target: REPAIRS[how](target)))


@patch("answers")
def binary_labels(subject: Subject, *, low: float) -> None:
    """Write two classes as 0 and 1."""
    _change(subject, lambda batch: batch.map_targets(lambda _, target: (target > low).float()))


@patch("answers")
def shuffle(subject: Subject) -> None:
    """Draw the training samples in a new random order in every pass."""
    _reload(subject, shuffle=True)


@patch("answers")
def reload_batches(subject: Subject, *, size: int | None = None, drop_last: bool = False) -> None:
    """Make batches of another size, or keep or drop the last incomplete one."""
    _reload(subject, shuffle=True, batch_size=size, drop_last=drop_last)


@patch("answers")
def ignore_labels(subject: Subject, *, values: Sequence[float]) -> None:
    """Write labels that are no classes as -100, which cross-entropy leaves out."""

    def ignored(_: str, target: torch.Tensor) -> torch.Tensor:
        bad = torch.isin(target, torch.tensor(list(values), dtype=target.dtype))
        return torch.where(bad, torch.full_like(target, -100), target)

    _change(subject, lambda batch: batch.map_targets(ignored))


@patch("check")
def drop_last_batch(subject: Subject) -> None:
    """Drop the last incomplete batch."""
    _reload(subject, shuffle=True, drop_last=True)


@patch("check")
def keep_every_sample(subject: Subject) -> None:
    """Keep the last incomplete batch."""
    _reload(subject, shuffle=True, drop_last=False)


def _reload(subject: Subject, shuffle: bool, batch_size: int | None = None, drop_last: bool | None = None) -> None:
    """Make a loader of the same data set; it is never iterated itself, a feed copies what it draws from."""
    old = subject.feed.loader
    is_stream = isinstance(old, DataLoader) and isinstance(old.dataset, IterableDataset)
    if not isinstance(old, DataLoader) or subject.feed.gives_whole_batches:
        raise NotApplicable("only a DataLoader that puts samples together can be made anew")
    if subject.feed.dataset is None and not is_stream:
        raise NotApplicable("only a DataLoader over a data set with an index, or over a stream, can be made anew")
    size = batch_size or old.batch_size or getattr(old.batch_sampler, "batch_size", None) or 32
    kept = bool(old.drop_last) if drop_last is None else drop_last
    data: Any = _Stirred(old.dataset) if is_stream and shuffle else old.dataset
    made: Any = DataLoader(data, size, shuffle=shuffle and not is_stream, collate_fn=old.collate_fn, drop_last=kept)
    subject.feed = Feed(made, subject.feed.name)


class _Stirred(IterableDataset[Any]):
    """A stream whose samples wait in a buffer, and leave it in a random order."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        """Fill the buffer; then each new sample takes the place of one that leaves."""
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


def _change(subject: Subject, change: Callable[[Batch], Batch]) -> None:
    """Change every batch of every feed, as a transform of the data set would."""

    def changed(raw: Any) -> Any:
        return change(Batch(raw, subject.reading_of(raw)).clone()).raw

    subject.feed = ChangedFeed(subject.feed, changed)
    subject.val_feed = ChangedFeed(subject.val_feed, changed) if subject.val_feed is not None else None
    subject.test_feed = ChangedFeed(subject.test_feed, changed) if subject.test_feed is not None else None


class _Lazily:
    """Means and spreads of the training data, measured when they are first needed: then generators are guarded."""

    def __init__(self, subject: Subject, parts: Callable[[Batch], dict[str, torch.Tensor]], axis: int) -> None:
        self._subject, self._feed, self._parts, self._axis = subject, subject.feed, parts, axis
        self._known: Statistics | None = None

    def standardised(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Bring a tensor to mean 0 and spread 1; ids and flags stay as they are."""
        if self._known is None:
            with drawing_nothing():
                self._known = self._measured()
        if name not in self._known:
            return tensor
        mean, spread = (value.to(tensor.device) for value in self._known[name])
        return ((tensor.float() - mean) / spread).to(tensor.dtype if tensor.is_floating_point() else torch.float32)

    def _measured(self) -> Statistics:
        found: dict[str, list[torch.Tensor]] = {}
        source = drawn(self._feed, self._subject.wrap, count=LOOKED_AT, seconds=SECONDS, tell=lambda _: None)
        for item in source:
            for name, tensor in self._parts(item.batch).items():
                found.setdefault(name, []).append(tensor)
        kept = {name: tensors for name, tensors in found.items() if _is_measure(tensors)}
        return {name: _statistics(tensors, self._axis) for name, tensors in kept.items()}


def _is_measure(tensors: list[torch.Tensor]) -> bool:
    """Whether these are measured values; integers are, where they are pixels."""
    first = tensors[0]
    pixels = first.dtype is torch.uint8 and first.dim() >= 3
    return (first.is_floating_point() or pixels) and first.dim() >= 1


def _statistics(tensors: list[torch.Tensor], axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Give mean and spread of each entry of one dimension, over samples and all other dimensions."""
    axis = axis % tensors[0].dim() if tensors[0].dim() > 1 else 0
    columns = [t.float().unsqueeze(-1) if t.dim() == 1 else t.float().movedim(axis, -1) for t in tensors]
    rows = torch.nan_to_num(torch.cat([c.flatten(0, -2) for c in columns]), 0.0, 0.0, 0.0)
    mean, spread = rows.mean(0), rows.std(0)
    spread = torch.where(spread > 1e-7 * mean.abs(), spread, torch.ones_like(spread))  # a column may be constant
    shape = [1] * tensors[0].dim()
    shape[axis] = -1
    return mean.reshape(shape), spread.reshape(shape)
