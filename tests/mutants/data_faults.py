"""Faults of the data: what the loader gives, in which order, and how it is split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler, TensorDataset

from nbdebug.setup.loss import main_output
from tests.mutants import fault
from tests.mutants.case import Case, Rows
from tests.zoo.samples import seeded


@fault("non-finite-inputs")
def nan_in_one_sample(case: Case) -> None:
    """One number of one sample is not a number."""
    key = case.input_keys[0]
    column = case.columns()[key]
    case.require(column[0].numel() > 1)

    def spoil(values: torch.Tensor) -> torch.Tensor:
        values[7].view(-1)[3 % values[7].numel()] = float("nan")
        return values

    case.change([key], spoil, val=False)


@fault("non-finite-inputs")
def infinite_target(case: Case) -> None:
    """One target is infinite."""
    case.require(case.is_regression)

    def spoil(values: torch.Tensor) -> torch.Tensor:
        values[11] = float("inf")
        return values

    case.change([case.target_key], spoil, val=False)


@fault("unnormalized-inputs")
def inputs_times_255(case: Case) -> None:
    """The division by 255 was forgotten."""
    keys = case.input_keys
    before = case.output
    case.require(all(float(case.columns()[key].std()) < 5 for key in keys))
    after = main_output(case.run(case.batch.map_inputs(lambda _, t: 255 * t if t.is_floating_point() else t)))
    case.require(after is not None and float((after - before).norm()) > 3 * float(before.norm()))  # does not normalize
    case.change(keys, lambda values: 255 * values)


@fault("feature-scales-differ", "unnormalized-inputs")
def one_column_in_other_units(case: Case) -> None:
    """One column is in millimetres and the others are in kilometres."""
    key = _table(case)
    before = case.output

    def stretch(values: torch.Tensor) -> torch.Tensor:
        values[:, 2] *= 1e4
        return values

    after = main_output(
        case.run(
            case.batch.map_inputs(lambda _, t: stretch(t.clone()) if t.dim() == 2 and t.is_floating_point() else t)
        )
    )
    case.require(after is not None and float((after - before).norm()) > 10 * float(before.norm()))
    case.change([key], stretch)


def _table(case: Case) -> Any:
    """Return the key of an input that is a table of real numbers."""
    key = case.input_keys[0]
    column = case.columns()[key]
    case.require(column.dim() == 2 and column.shape[1] >= 4 and float(column[:, 2].std()) > 0.1)
    return key


@fault("labels-unrelated-to-inputs")
def labels_shuffled(case: Case) -> None:
    """Inputs and targets were put into another order."""
    case.require("compute_loss" not in case.setup)
    case.change([case.target_key], lambda values: values[torch.randperm(len(values), generator=seeded(5))])


@fault("noisy-labels", "labels-unrelated-to-inputs")
def labels_a_third_wrong(case: Case) -> None:
    """A third of the labels are random."""
    case.require(case.is_classification and case.target.dim() == 1)
    classes = case.output.shape[1]

    def confuse(values: torch.Tensor) -> torch.Tensor:
        wrong = torch.rand(len(values), generator=seeded(6)) < 0.35
        return torch.where(wrong, torch.randint(classes, values.shape, generator=seeded(7)), values)

    case.change([case.target_key], confuse)


@fault("constant-targets", "class-imbalance", "single-class-batches")
def one_label_for_all(case: Case) -> None:
    """Every sample has the label of the first."""
    case.require("compute_loss" not in case.setup)
    case.change([case.target_key], lambda values: values[:1].expand_as(values).clone())


@fault("invalid-labels", "forward-fails")
def labels_off_by_one(case: Case) -> None:
    """Labels are counted from 1."""
    case.require(case.is_classification and int(case.target.max()) < 200)
    case.change([case.target_key], lambda values: torch.where(values >= 0, values + 1, values))


@fault("invalid-labels", "forward-fails")
def a_few_negative_labels(case: Case) -> None:
    """A missing label was coded as -1."""
    case.require(case.is_classification and case.target.dim() == 1)

    def lose(values: torch.Tensor) -> torch.Tensor:
        values[::25] = -1
        return values

    case.change([case.target_key], lose, val=False)


@fault("constant-inputs")
def inputs_all_zero(case: Case) -> None:
    """The wrong array was loaded: all zeros."""
    case.change(case.input_keys, torch.zeros_like)


@fault("misread-image-layout", "forward-fails")
def channels_last(case: Case) -> None:
    """Images as height, width, channel, in front of a convolution."""
    key = case.input_keys[0]
    case.require(case.columns()[key].dim() == 4 and bool(case.called(torch.nn.Conv2d)))
    case.change([key], lambda values: values.permute(0, 2, 3, 1).contiguous())


@fault("unshuffled-loader", "single-class-batches")
def sorted_and_not_shuffled(case: Case) -> None:
    """The data set is sorted by label and read in order."""
    case.require(case.is_classification and case.target.dim() == 1)
    columns = case.columns()
    case.require(len(columns[case.target_key]) >= 4 * case.batch.size and case.batch.size > 1)
    order = columns[case.target_key].argsort(stable=True)
    case.feed({key: column[order] for key, column in columns.items()}, shuffle=False)


class Same(Sampler[Any]):
    """Gives the same indices again and again."""

    def __init__(self, indices: list[int], times: int) -> None:
        self.indices, self.times = indices, times

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.times):
            yield from self.indices

    def __len__(self) -> int:
        return len(self.indices) * self.times


@fault("repeated-batches", "samples-dropped", "duplicate-samples")
def the_same_batch_again(case: Case) -> None:
    """The loader gives its first batch for ever."""
    columns, size = case.columns(), case.setup["loader"].batch_size
    total = len(next(iter(columns.values())))
    case.require(1 < size <= total // 4)
    case.feed(columns, sampler=Same(list(range(size)), total // size))


@fault("samples-dropped")
def most_samples_never_drawn(case: Case) -> None:
    """The sampler was made for a smaller data set."""
    columns, size = case.columns(), case.setup["loader"].batch_size
    total = len(next(iter(columns.values())))
    case.require(1 < size <= total // 10)
    generator = seeded(8)
    case.feed(columns, sampler=torch.utils.data.SubsetRandomSampler(range(total // 5), generator=generator))


@fault("split-leakage")
def validation_from_training_data(case: Case) -> None:
    """The validation set was drawn from the training set."""
    case.require(case.setup.get("val_loader") is not None and case.setup["val_loader"] is not case.setup["loader"])
    columns = case.columns()
    keep = torch.randperm(len(next(iter(columns.values()))), generator=seeded(9))[:100]
    case.feed({key: column[keep] for key, column in columns.items()}, "val_loader")


@fault("split-shift")
def validation_scaled_otherwise(case: Case) -> None:
    """The validation data were preprocessed by other code."""
    case.require(case.setup.get("val_loader") is not None)
    columns = case.columns("val_loader")
    for key in case.input_keys:
        columns[key] = 3 * columns[key] + 2
    case.feed(columns, "val_loader")


@fault("target-leaks-into-inputs")
def target_among_the_columns(case: Case) -> None:
    """The column to predict was left in the table."""
    key, target = _table(case), case.target_key
    case.require(case.columns()[target].dim() <= 2)

    for name in ("loader", "val_loader"):
        if case.setup.get(name) is None:
            continue
        columns = case.columns(name)
        answer = columns[target].float().reshape(len(columns[target]), -1)
        case.require(answer.shape[1] == 1)
        columns[key][:, 2] = answer[:, 0].to(columns[key].dtype)
        case.feed(columns, name)


class Editing(Rows):
    """A data set whose transform works in place."""

    def __getitem__(self, index: int) -> Any:
        """Darken, for good."""
        key = next(key for key, column in self.columns.items() if column.is_floating_point())
        self.columns[key][index] *= 0.9
        sample = {key: column[index].clone() for key, column in self.columns.items()}
        return sample if isinstance(next(iter(sample)), str) else tuple(sample.values())


@fault("preprocessing-mutates-data")
def transform_in_place(case: Case) -> None:
    """Reading a sample changes it."""
    case.require(bool(case.input_keys))
    case.feed(Editing(case.columns()))


@fault("duplicate-samples")
def twenty_samples_copied(case: Case) -> None:
    """Twenty samples, each of them many times."""
    case.require(bool(case.input_keys))
    columns = case.columns()
    total = len(next(iter(columns.values())))
    case.require(total >= 200)
    order = torch.arange(total) % 20
    case.require(not case.batch.has_target or len(columns[case.target_key][:20].unique()) > 1)
    case.feed({key: column[order] for key, column in columns.items()})


@fault("truncated-inputs", "constant-inputs")
def pixels_lost_to_integers(case: Case) -> None:
    """Numbers between 0 and 1 go through an integer type when samples are put together."""
    keys, columns = case.input_keys, case.columns()
    case.require(float(columns[keys[0]].min()) >= 0 and float(columns[keys[0]].max()) <= 1)

    def collate(samples: list[Any]) -> Any:
        batch = torch.utils.data.default_collate(samples)
        for key in keys:
            batch[key] = batch[key].long().to(batch[key].dtype)
        return batch

    case.feed(columns, collate_fn=collate)


class Shredded(TensorDataset):
    """Every reading puts the pixels into another order."""

    def __getitem__(self, index: int) -> Any:
        """Shuffle the pixels of the first part."""
        first, *rest = super().__getitem__(index)
        return (first.flatten()[torch.randperm(first.numel())].view_as(first), *rest)


@fault("destructive-augmentation", "labels-unrelated-to-inputs")
def augmentation_that_shreds(case: Case) -> None:
    """An augmentation after which nobody could tell the class."""
    case.require(case.is_classification and case.target.dim() == 1 and len(case.input_keys) == 1)
    columns = case.columns()
    case.require(not isinstance(next(iter(columns)), str) and columns[0].is_floating_point() and columns[0].dim() > 2)
    case.feed(Shredded(*columns.values()))


@fault("class-imbalance")
def one_class_swamps_the_others(case: Case) -> None:
    """Only a few samples of all classes but one are left, and nothing makes up for it."""
    case.require(case.is_classification and case.target.dim() == 1 and "compute_loss" not in case.setup)
    case.require(getattr(case.loss_fn, "weight", None) is None)
    columns = case.columns()
    labels = columns[case.target_key]
    case.require(len(labels) >= 1000 and type(case.setup["loader"].sampler).__name__ == "RandomSampler")
    common = labels % 2 == 0 if case.output.shape[1] > 2 else labels == 0
    rare = (~common).nonzero().flatten()[::40]
    keep = torch.cat([common.nonzero().flatten(), rare])
    case.feed({key: column[keep] for key, column in columns.items()})


@fault("unscaled-targets", "initial-loss-off")
def targets_in_small_units(case: Case) -> None:
    """Targets around 100,000 for a head that begins at 0."""
    case.require(case.is_regression and float(case.target.abs().max()) < 100)
    case.change([case.target_key], lambda values: 1e5 + 2e4 * values)


@fault("incompatible-target-shape", "forward-fails")
def target_without_its_column(case: Case) -> None:
    """Targets of shape (N,) against outputs of shape (N, 1)."""
    case.require(case.is_regression and case.target.dim() == 2 and case.target.shape[1] == 1)
    case.change([case.target_key], lambda values: values[:, 0])


@fault("empty-loader")
def loader_without_batches(case: Case) -> None:
    """The last, incomplete batch is dropped, and there is no other."""
    case.feed(case.columns(), batch_size=100_000, drop_last=True)


@fault("extreme-batch-size", "batchnorm-misused", "forward-fails")
def batches_of_one_with_batchnorm(case: Case) -> None:
    """Batch normalization over one sample."""
    case.require(any("BatchNorm" in type(m).__name__ and m.training for m in case.model.modules()))
    case.feed(case.columns(), batch_size=1)


@fault("padding-dominates")
def mask_lets_padding_through(case: Case) -> None:
    """The mask says that every token is real."""
    columns = case.columns()
    mask = next((key for key in columns if key == "attention_mask"), None)
    lengths = 1 if 1 in columns and "lengths" in _names(case) else None
    case.require(mask is not None or lengths is not None)
    if mask is not None:
        case.change([mask], torch.ones_like)
    else:
        case.change([lengths], lambda values: torch.full_like(values, int(values.max())))


def _names(case: Case) -> str:
    return " ".join(case.model.forward.__code__.co_varnames)
