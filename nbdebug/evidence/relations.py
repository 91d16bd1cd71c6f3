"""How samples relate to one another: between the splits, and to their labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = [
    "Baselines",
    "ColumnLeak",
    "OwnRelation",
    "Samples",
    "Shift",
    "Shifts",
    "SplitPair",
    "Splits",
    "Table",
]


@dataclass(frozen=True)
class Table:
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
        """Give the number of samples that were drawn."""
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

    train: Table
    others: tuple[Table, ...] = ()
    random: bool = False
    plain: Table | None = None

    @property
    def clean(self) -> Table:
        """The training samples as a validation set would show them, as far as that can be had."""
        return self.plain if self.plain is not None else self.train


@dataclass(frozen=True)
class SplitPair:
    """How many samples of a held-out split are in the training data as well.

    `exact` counts samples of the split whose whole content occurs in the training samples compared; `beyond_chance`
    those of them whose content is too rich to repeat by accident. `inner` counts in the same way how many training
    samples have a copy among the other training samples, `near` and `inner_near` the same for almost equal samples.
    `shared` counts samples of one data set that both splits draw by index. Examples pair the indices: split, training.
    """

    name: str
    compared: int
    pool: int
    pool_total: int | None
    exact: int
    beyond_chance: int
    inner: int
    inner_compared: int
    near: int = 0
    near_compared: int = 0
    inner_near: int = 0
    inner_near_compared: int = 0
    shared: int | None = None
    shared_of: int = 0
    examples: tuple[tuple[int, int], ...] = ()
    near_examples: tuple[tuple[int, int], ...] = ()
    blind: str = ""


@dataclass(frozen=True)
class Splits:
    """Each held-out split against the training data."""

    pairs: tuple[SplitPair, ...]


@dataclass(frozen=True)
class Shift:
    """How the inputs and labels of one held-out split differ from the training data.

    `moved` are the columns whose mean or scale differs beyond chance, with the standardised difference of the means and
    the ratio of the scales; `auc` is how well a forest tells the splits apart, 0.5 being not at all. `slope` is the
    factor that brings the values of one input of the training data to those of the split (1 when nothing differs).
    `target` is the same for targets that are numbers, where it is beyond chance: the difference of the means in
    deviations of the training data, and the ratio of the scales.
    """

    name: str
    train_size: int
    size: int
    columns: int
    moved: tuple[tuple[str, float, float], ...]
    slopes: tuple[tuple[str, float, float], ...]  # input, factor, how well it explains the difference
    auc: float
    auc_p: float
    channels_swapped: bool
    label_distance: float | None
    label_p: float
    unseen: tuple[str, ...]
    unseen_share: float
    random: bool
    label_table: tuple[tuple[str, float, float], ...] = ()
    target: tuple[float, float] | None = None


@dataclass(frozen=True)
class Shifts:
    """Each held-out split against the training data."""

    pairs: tuple[Shift, ...]


@dataclass(frozen=True)
class Baselines:
    """What simple models make of the inputs by cross-validation, against the same labels shuffled.

    `scores` are accuracies or shares of variance explained; `p` is the probability of the best score if inputs and
    labels had nothing to do with each other, corrected for the number of models. Arrays have one entry a sample: the
    label, the label that the best model predicts, and how sure it is of either. `held_out` is the same probability for
    the validation data, where there are enough of them and the training data show no relation.
    """

    kind: str
    size: int
    scores: dict[str, float]
    best: str
    chance: float
    p: float
    indices: tuple[int, ...] = ()
    classes: tuple[float, ...] = ()
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    predicted: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sure: np.ndarray = field(default_factory=lambda: np.zeros(0))
    given: np.ndarray = field(default_factory=lambda: np.zeros(0))
    held_out: float | None = None

    @property
    def score(self) -> float:
        """The best score."""
        return self.scores[self.best]

    @property
    def gain(self) -> float:
        """How far the best score is on the way from chance to perfect."""
        return (self.score - self.chance) / max(1 - self.chance, 1e-9)


@dataclass(frozen=True)
class OwnRelation:
    """Whether the model itself, trained shortly, finds a relation of inputs and targets that holds for unseen samples.

    The losses are of held-out samples with their own targets and with those of other samples; `p` is the probability
    of such a difference by chance. `by_heart` says that the samples trained on fit their own targets much better,
    `exhausted` that all steps were taken.
    """

    steps: int
    trained_on: int
    held_out: int
    first_loss: float
    last_loss: float
    by_heart: bool
    exhausted: bool
    held_loss: float
    shuffled_loss: float
    p: float


@dataclass(frozen=True)
class ColumnLeak:
    """The input column (or few columns) that predicts the target best alone, against all the others together.

    Scores count from 0 (chance) to 1 (perfect). `exact` says that the column is the target under another name: each
    value of one belongs to exactly one value of the other, or it is a straight line of it. `others` is None where no
    column goes so far alone that the comparison would be worth its time.
    """

    columns: tuple[str, ...]
    alone: float
    others: float | None
    others_p: float
    runner_up: float
    exact: bool
    width: int
    size: int
    kind: str
