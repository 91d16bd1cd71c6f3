"""Draw samples of every split and lay them out as rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Batch, Feed, Setup
from nbdebug.setup.dataset_origin import without_augmentation
from nbdebug.setup.feature_rows import Columns, columns_of, digests_of, joined
from nbdebug.setup.sample_dataset import drawn, fresh_reader

__all__ = ["SampleTable", "Samples", "sample_table"]


@dataclass(frozen=True)
class SampleTable:
    """Samples of one split as rows of numbers: inputs, and labels where each sample has one answer.

    `kind` says what the labels are: classes (ids from 0, as indices into `classes`), numbers, several (one column
    for each of several answers), dense (an answer for each pixel or token), or none.
    """

    name: str
    rows: np.ndarray
    columns: tuple[str, ...]
    groups: tuple[str, ...]
    indices: tuple[int, ...]
    labels: np.ndarray | None
    kind: str
    classes: tuple[float, ...] = ()
    target: str = ""
    total: int | None = None
    images: tuple[int, int, int] | None = None  # channels, height and width of the first input, where it is an image
    target_is_input: bool = False
    digests: tuple[bytes, ...] = ()
    late: bool = False  # the time was over before the samples were

    @property
    def is_all(self) -> bool:
        """Whether no further sample could be had, or only slowly."""
        return self.late or self.total == len(self)

    def __len__(self) -> int:
        """Return the number of samples that were drawn."""
        return len(self.indices)

    @property
    def share(self) -> str:
        """Say how much of the split was seen."""
        return f"{len(self)} samples" if self.total in (None, len(self)) else f"{len(self)} of {self.total} samples"


@dataclass(frozen=True)
class Samples:
    """A random draw from every split; `plain` is the training data read without its augmentation, where possible.

    `random` says that reading a training sample again gives other values.
    """

    train: SampleTable
    others: tuple[SampleTable, ...] = ()
    random: bool = False
    plain: SampleTable | None = None

    @property
    def clean(self) -> SampleTable:
        """The training samples as a validation set would show them, as far as that can be had."""
        return self.plain if self.plain is not None else self.train


ROWS = 2000
MOST_CLASSES = 200
Labels = list[torch.Tensor]


@probe(quick=False)
def sample_table(setup: Setup, control: Control) -> Samples:
    """Sample every split at random and flatten the samples to rows."""
    others = [feed for feed in (setup.val_feed, setup.test_feed) if feed is not None]
    parts = 1 + len(others)
    train = _table(setup, setup.feed, control, 0.0, 1 / parts)
    if not len(train) or train.rows.shape[1] == 0:
        raise NotApplicable("the samples cannot be flattened to rows (they differ in shape)")
    random = _is_random(setup)
    tables = [_table(setup, feed, control, (i + 1) / parts, 1 / parts) for i, feed in enumerate(others)]
    plain = None
    if random and others:
        feed = without_augmentation(setup.feed, others[0])
        plain = _table(setup, feed, control, 0.9, 0.1) if feed is not None else None
    return Samples(train, tuple(tables), random, plain)


def _table(setup: Setup, feed: Feed, control: Control, start: float, width: float) -> SampleTable:
    inputs: list[Columns] = []
    targets: Labels = []
    indices: list[int] = []
    same, shape, name = False, None, ""
    digests: list[bytes] = []

    wanted = min(ROWS, setup.sweep_samples)

    def tell(fraction: float) -> None:
        control.progress(start + width * fraction, f"loading samples of {feed.name}")

    for part in drawn(feed, setup.wrap, count=wanted, control=control, tell=tell):
        inputs.append(columns_of(part.batch))
        indices.extend(part.indices)
        digests.extend(digests_of(part.batch))
        shape = shape or _image_shape(part.batch)
        name, target = next(iter(part.batch.targets.items()), ("", None))
        same = same or _is_an_input(target, part.batch)
        if target is not None and target.dim() and target.shape[0] == part.batch.size:
            targets.append(target.detach().cpu())
    rows, columns, groups = joined(inputs)
    kind, labels, classes = _labels(targets if len(targets) == len(inputs) else [])
    return SampleTable(
        feed.name,
        rows,
        columns,
        groups,
        tuple(indices[: len(rows)]),
        labels,
        kind,
        classes,
        name,
        feed.total,
        shape,
        same,
        tuple(digests[: len(rows)]),
        len(indices) < min(wanted, feed.total or wanted),
    )


def _image_shape(batch: Batch) -> tuple[int, int, int] | None:
    first = next(iter(batch.inputs.values()), None)
    if first is None or first.dim() != 4:
        return None
    return int(first.shape[1]), int(first.shape[2]), int(first.shape[3])


def _is_an_input(target: Any, batch: Batch) -> bool:
    """Whether the target is an input again, as in autoencoders, or has its shape, as in denoisers.

    Token ids of the same shape are another thing: the next token is an answer.
    """
    if not isinstance(target, torch.Tensor) or target.dim() < 2 or target.shape[1] == 1:
        return False
    alike = [t for t in batch.inputs.values() if t.shape == target.shape]
    real = target.is_floating_point()
    return any((real and t.is_floating_point()) or torch.equal(t.to(target.dtype), target) for t in alike)


def _labels(targets: Labels) -> tuple[str, np.ndarray | None, tuple[float, ...]]:
    """Say what kind of answers these are, and give them one row a sample."""
    if not targets or len({tuple(t.shape[1:]) for t in targets}) > 1 or any(t.is_complex() for t in targets):
        return ("dense" if targets else "none"), None, ()
    whole = torch.cat(targets)
    floating = whole.is_floating_point()
    values = whole.double().numpy()
    if values.ndim > 2 or (values.ndim == 2 and not floating and values.shape[1] > 1):
        return "dense", None, ()
    if values.ndim == 2 and values.shape[1] > 1:
        return _several(values)
    values = values.reshape(len(values))
    if not np.isfinite(values).all():
        return "none", None, ()
    found, ids = np.unique(values, return_inverse=True)
    integral = bool((found == np.round(found)).all())
    if integral and len(found) <= (MOST_CLASSES if not floating else 10) and len(found) < len(values) / 3:
        return "classes", ids.astype(np.int64), tuple(float(v) for v in found)
    return ("numbers", values, ()) if floating else ("none", None, ())


def _several(values: np.ndarray) -> tuple[str, np.ndarray | None, tuple[float, ...]]:
    binary = bool(np.isin(values, (0.0, 1.0)).all())
    if binary and bool((values.sum(1) == 1).all()):
        return "classes", values.argmax(1), tuple(float(i) for i in range(values.shape[1]))
    soft = bool((np.abs(values.sum(1) - 1) < 1e-3).all() and (values >= 0).all())
    if binary or (np.isfinite(values).all() and not soft):
        return "several", values[:, :16], ()
    return "none", None, ()  # soft labels: no sample has one answer


def _is_random(setup: Setup, looks: int = 5) -> bool:
    """Whether reading a training sample with other random numbers gives other values."""
    reader = fresh_reader(setup.feed, setup.wrap)
    if reader is None:
        return False
    total = setup.feed.total or 0
    for index in np.random.default_rng(1).integers(0, total, looks):
        if digests_of(reader.read(int(index), 1)) != digests_of(reader.read(int(index), 2)):
            return True
    return False
