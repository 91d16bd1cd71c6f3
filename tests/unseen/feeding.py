"""Data that are wrong before any layer sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_diabetes, load_digits, load_wine
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from tests.unseen import unseen
from tests.unseen.objectives import conv_net
from tests.zoo.samples import digit_images, digit_rows, friedman, scaled, seeded, setup, split, wine


class Digits(Dataset[Any]):
    """Digits as an author would wrap them, with a transform and a mistake of one's own."""

    def __init__(self, change: Any, part: slice = slice(0, 1400)) -> None:
        images, labels = load_digits(return_X_y=True)
        self.images, self.labels, self.change = images[part].reshape(-1, 8, 8), labels[part], change

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        """Return an image and its label."""
        return self.change(self.images, self.labels, index)


def digit_setup(change: Any, val_change: Any = None, **options: Any) -> dict[str, Any]:
    """A convolutional network on digits that were wrapped."""
    train = DataLoader(Digits(change), 50, shuffle=True, **options)
    val = DataLoader(Digits(val_change or change, slice(1400, None)), 100)
    return setup(conv_net(), (train, val), nn.CrossEntropyLoss())


def plain(images: Any, labels: Any, index: int) -> Any:
    """As it should be."""
    return torch.tensor(images[index] / 16, dtype=torch.float32)[None], int(labels[index])


@unseen("repeated-batches", "duplicate-samples", "constant-inputs", "constant-targets")
def index_not_used() -> dict[str, Any]:
    """Every index gives the first sample."""
    return digit_setup(lambda images, labels, index: plain(images, labels, 0))


@unseen("unnormalized-inputs")
def bytes_as_they_are() -> dict[str, Any]:
    """Bytes from 0 to 255, turned to floats and no more."""

    def raw(images: Any, labels: Any, index: int) -> Any:
        return torch.tensor((images[index] * 15.9).astype("uint8"), dtype=torch.float32)[None], int(labels[index])

    return digit_setup(raw)


@unseen("truncated-inputs", "constant-inputs")
def divided_as_integers() -> dict[str, Any]:
    """Bytes divided by 255 as integers."""

    def lost(images: Any, labels: Any, index: int) -> Any:
        pixels = torch.tensor((images[index] * 15.9).astype("uint8")) // 255
        return pixels.float()[None], int(labels[index])

    return digit_setup(lost)


@unseen("invalid-labels", "forward-fails")
def labels_from_minus_one() -> dict[str, Any]:
    """The collate function subtracts one from labels that already begin at zero."""

    def collate(samples: list[Any]) -> Any:
        images, labels = default_collate(samples)
        return images, labels - 1

    return digit_setup(plain, collate_fn=collate)


@unseen("labels-unrelated-to-inputs")
def labels_of_the_neighbor() -> dict[str, Any]:
    """The collate function pairs every image with the label of the one before."""

    def collate(samples: list[Any]) -> Any:
        images, labels = default_collate(samples)
        return images, labels.roll(1)

    return digit_setup(plain, collate_fn=collate)


@unseen("non-finite-inputs")
def contrast_of_an_empty_picture() -> dict[str, Any]:
    """Each picture is divided by its own spread; one picture is empty."""

    def stretched(images: Any, labels: Any, index: int) -> Any:
        image = torch.tensor(images[index], dtype=torch.float32)
        image = image * 0 if index == 333 else image
        return ((image - image.mean()) / image.std())[None], int(labels[index])

    return digit_setup(stretched)


@unseen("split-shift")
def validation_divided_twice() -> dict[str, Any]:
    """The validation pictures are brought to [0, 1] twice."""
    return digit_setup(plain, lambda images, labels, index: plain(images / 16, labels, index))


@unseen("misread-image-layout")
def colors_by_view() -> dict[str, Any]:
    """Height, width, color are read as color, height, width by `view`."""

    def colored(images: Any, labels: Any, index: int) -> Any:
        gray = torch.tensor(images[index] / 16, dtype=torch.float32).repeat_interleave(2, 0).repeat_interleave(2, 1)
        tint = torch.rand(3, generator=seeded(index)) * 0.6 + 0.4
        picture = gray[..., None] * tint  # 16 × 16 × 3
        return picture.contiguous().view(3, 16, 16), int(labels[index])

    made = digit_setup(colored)
    made["model"][0] = nn.Conv2d(3, 12, 3, padding=1)
    made["optimizer"] = torch.optim.Adam(made["model"].parameters(), lr=3e-3)
    return made


@unseen("destructive-augmentation", "labels-unrelated-to-inputs")
def noise_louder_than_the_picture() -> dict[str, Any]:
    """Noise of spread 10 is added to pixels between 0 and 1."""

    def noisy(images: Any, labels: Any, index: int) -> Any:
        image, label = plain(images, labels, index)
        return image + 10 * torch.randn_like(image), label

    return digit_setup(noisy, plain)


class ClassByClass(IterableDataset[Any]):
    """Reads the files of one class after those of another."""

    def __iter__(self) -> Iterator[Any]:
        images, labels = digit_images()
        for index in labels[:1400].argsort(stable=True).tolist():
            yield images[index], labels[index]


@unseen("unshuffled-loader", "single-class-batches")
def files_class_by_class() -> dict[str, Any]:
    """A stream in the order of the folders."""
    images, labels = digit_images()
    val = DataLoader(TensorDataset(images[1400:], labels[1400:]), 100)
    return setup(conv_net(), (DataLoader(ClassByClass(), 50), val), nn.CrossEntropyLoss())


@unseen("split-shift", "unscaled-targets")
def targets_scaled_in_training_only() -> dict[str, Any]:
    """The validation targets are in their own units."""
    rows, progress = load_diabetes(return_X_y=True)
    x, y = scaled(rows), torch.tensor(progress, dtype=torch.float32)[:, None]
    train = TensorDataset(x[:340], (y[:340] - y[:340].mean()) / y[:340].std())
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    loaders = DataLoader(train, 34, shuffle=True), DataLoader(TensorDataset(x[340:], y[340:]), 102)
    return setup(model, loaders, nn.MSELoss())


@unseen("target-leaks-into-inputs")
def window_holds_its_answer() -> dict[str, Any]:
    """The last value of the window is the one to predict."""
    series = torch.randn(900, generator=seeded(4)).cumsum(0)
    series = (series - series.mean()) / series.std() + 0.5 * torch.randn(900, generator=seeded(5))
    windows = series.unfold(0, 12, 1)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
    return setup(model, split(windows.clone(), windows[:, 11:].clone(), batch_size=32), nn.MSELoss())


@unseen("split-leakage")
def oversampled_before_the_split() -> dict[str, Any]:
    """Rare samples were copied, then everything was split at random."""
    rows, labels = digit_rows()
    rare = (labels == 3).nonzero().flatten()[:60]
    keep = torch.cat([(labels != 3).nonzero().flatten(), rare, rare, rare])
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return setup(model, split(rows[keep], labels[keep]), nn.CrossEntropyLoss())


@unseen("feature-scales-differ", "unnormalized-inputs")
def wine_as_measured() -> dict[str, Any]:
    """Proline in the thousands beside hue below one."""
    rows, labels = load_wine(return_X_y=True)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    return setup(
        model,
        split(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels), batch_size=16),
        nn.CrossEntropyLoss(),
    )


@unseen("noisy-labels", "labels-unrelated-to-inputs")
def careless_annotator() -> dict[str, Any]:
    """Four labels in ten were given to the next class by mistake."""
    rows, labels = digit_rows()
    careless = torch.rand(len(labels), generator=seeded(6)) < 0.4
    labels = torch.where(careless, (labels + 1 + torch.randint(0, 8, labels.shape, generator=seeded(7))) % 10, labels)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return setup(model, split(rows, labels), nn.CrossEntropyLoss())


@unseen("constant-targets", "labels-unrelated-to-inputs", "invalid-labels", "class-imbalance")
def labels_lost_in_a_comparison() -> dict[str, Any]:
    """Labels are compared with a string, so that all of them are zero."""
    rows, labels = wine()
    lost = torch.tensor([int(str(int(label)) == "one") for label in labels])
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 2))
    return setup(model, split(rows, lost, batch_size=16), nn.CrossEntropyLoss())


@unseen("unscaled-targets", "initial-loss-off")
def prices_in_cents() -> dict[str, Any]:
    """Targets around four million."""
    rows, target = friedman()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return setup(model, split(rows, 4e6 + 9e5 * target, batch_size=32), nn.L1Loss())
