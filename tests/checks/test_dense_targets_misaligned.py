"""Failing examples whose masks lie elsewhere than their images, and sound dense targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.programs import program
from tests.zoo.samples import seeded

CHECK = "dense-targets-misaligned"
Pair = tuple[torch.Tensor, torch.Tensor]


def discs(count: int = 48, height: int = 24, width: int = 24, noise: float = 0.5) -> Pair:
    """Return noisy images with a bright disc and a darker square each, and masks of three classes."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    centers = torch.rand(count, 4, generator=seeded(0)) * (min(height, width) - 10) + 5
    disc = (rows - centers[:, 0, None, None]) ** 2 + (columns - centers[:, 1, None, None]) ** 2 < 16
    square = ((rows - centers[:, 2, None, None]).abs() < 3) & ((columns - centers[:, 3, None, None]).abs() < 3)
    masks = torch.where(disc, 1, torch.where(square, 2, 0))
    images = torch.tensor([0.0, 1.0, -1.0])[masks] + noise * torch.randn(masks.shape, generator=seeded(1))
    return torch.stack([images, 0.5 * images + 0.2 * torch.randn(masks.shape, generator=seeded(2))], 1), masks


def segmentation(images: torch.Tensor, masks: torch.Tensor, shape: str = "plain") -> dict[str, Any]:
    net = nn.Sequential(nn.Conv2d(images.shape[1], 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    return program(shape, net, images, masks, F.cross_entropy, size=16)


@failing_example(CHECK)
def masks_transposed() -> dict[str, Any]:
    """Rows and columns of the masks are exchanged, as between two imaging libraries."""
    images, masks = discs()
    return segmentation(images, masks.mT)  # fixed: return segmentation(images, masks)


@failing_example(CHECK)
def masks_upside_down() -> dict[str, Any]:
    """Masks with their origin at the bottom, in a training step with named entries."""
    images, masks = discs()
    return segmentation(images, masks.flip(1), "train_step")


class FlipsImagesOnly(Dataset[Pair]):
    """An augmentation that draws a flip of the image."""

    def __init__(self, images: torch.Tensor, masks: torch.Tensor, both: bool = False) -> None:
        self.images, self.masks, self.both = images, masks, both

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Pair:
        flip = bool(torch.rand(()) < 0.5)
        image, mask = self.images[index], self.masks[index]
        return (image.flip(-1) if flip else image), (mask.flip(-1) if flip and self.both else mask)


def augmented(both: bool) -> dict[str, Any]:
    net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    return {"model": net, "loader": DataLoader(FlipsImagesOnly(*discs(), both), 16), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK)
def images_flipped_alone() -> dict[str, Any]:
    """The augmentation flips half of the images, and no mask."""
    return augmented(both=False)


@failing_example(CHECK)
def crops_drawn_elsewhere() -> dict[str, Any]:
    """Masks are cropped with another offset than their images."""
    images, masks = discs(height=32, width=32)
    return segmentation(images[..., :24, :24], masks[..., 3:27, :24])


class Augmented(Dataset[Pair]):
    """A data set whose items are drawn anew at each read by a function of image and target."""

    def __init__(self, images: torch.Tensor, targets: torch.Tensor, draw: Callable[..., Pair]) -> None:
        self.images, self.targets, self.draw = images, targets, draw

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Pair:
        return self.draw(self.images[index], self.targets[index])


def crop(tensor: torch.Tensor, at: list[int]) -> torch.Tensor:
    return tensor[..., at[0] : at[0] + 24, at[1] : at[1] + 24]


def cropped(together: bool) -> dict[str, Any]:
    """Crop images and masks at a place drawn at random, for both or for each."""

    def draw(image: torch.Tensor, mask: torch.Tensor) -> Pair:
        one, other = (torch.randint(0, 17, (2,)).tolist() for _ in range(2))
        return crop(image, one), crop(mask, one if together else other)

    net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    loader = DataLoader(Augmented(*discs(height=40, width=40), draw), 16)
    return {"model": net, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="batch[1]")
def crops_drawn_twice() -> dict[str, Any]:
    """The place of the crop is drawn for the image, and again for its mask."""
    return cropped(together=False)


def boxed(count: int = 64, size: int = 24) -> Pair:
    """Return noisy images of one bright box each, and its corners between 0 and 1."""
    sides = torch.randint(5, 11, (count, 2), generator=seeded(6))
    corners = (torch.rand(count, 2, generator=seeded(7)) * (size - sides)).long()
    rows, columns = torch.arange(size)[None, :, None], torch.arange(size)[None, None, :]
    low, high = corners, corners + sides
    inside = (rows >= low[:, 1, None, None]) & (rows < high[:, 1, None, None])
    inside = inside & (columns >= low[:, 0, None, None]) & (columns < high[:, 0, None, None])
    images = inside[:, None] + 0.3 * torch.randn(count, 1, size, size, generator=seeded(8))
    return images, torch.cat([low, high], 1) / size


def located(draw: Callable[..., Pair], outputs: int = 4, targets: torch.Tensor | None = None) -> dict[str, Any]:
    images, boxes = boxed()
    net = nn.Sequential(nn.Flatten(), nn.Linear(576, 32), nn.ReLU(), nn.Linear(32, outputs))
    data = Augmented(images, boxes if targets is None else targets, draw)
    return {"model": net, "loader": DataLoader(data, 16, shuffle=True), "loss_fn": nn.SmoothL1Loss()}


def mirrored(box: torch.Tensor) -> torch.Tensor:
    return torch.stack([1 - box[2], box[1], 1 - box[0], box[3]])


@failing_example(CHECK, where="batch[1]")
def boxes_left_behind() -> dict[str, Any]:
    """Images are flipped at random, and the boxes in them are not."""
    return located(lambda image, box: (image.flip(-1) if torch.rand(()) < 0.5 else image, box))


@failing_example(CHECK, where="batch[1]")
def keypoints_mirrored_alone() -> dict[str, Any]:
    """Centers of objects are mirrored at random, and their images are not: the flipped copy is thrown away."""
    centers = boxed()[1].view(-1, 2, 2).mean(1)

    def draw(image: torch.Tensor, point: torch.Tensor) -> Pair:
        return image, torch.stack([1 - point[0], point[1]]) if torch.rand(()) < 0.5 else point

    return located(draw, 2, centers)


def shifted(follows: bool) -> Callable[..., Pair]:
    """Shift images by a few pixels, with or without their boxes."""

    def draw(image: torch.Tensor, box: torch.Tensor) -> Pair:
        down, right = torch.randint(-4, 5, (2,)).tolist()
        moved = box + torch.tensor([right, down, right, down]) / 24 if follows else box
        return image.roll((down, right), (1, 2)), moved

    return draw


@failing_example(CHECK, where="batch[1]")
def boxes_of_shifted_images() -> dict[str, Any]:
    """Images are shifted at random, and the boxes in them are not."""
    return located(shifted(follows=False))


def boxes_flipped(image: torch.Tensor, box: torch.Tensor) -> Pair:
    return (image.flip(-1), mirrored(box)) if torch.rand(()) < 0.5 else (image, box)


def sizes_of_boxes() -> dict[str, Any]:
    """Width and height do not change by a flip."""
    boxes = boxed()[1]
    flip = lambda image, size: (image.flip(-1) if torch.rand(()) < 0.5 else image, size)  # noqa: E731
    return located(flip, 2, boxes[:, 2:] - boxes[:, :2])


def two_views() -> dict[str, Any]:
    """Return two augmented views of each image, whose embeddings are compared."""
    images = discs()[0]

    def draw(image: torch.Tensor, same: torch.Tensor) -> Pair:
        one, other = (torch.randint(0, 9, (2,)).tolist() for _ in range(2))
        return image[:, one[0] :, one[1] :][:, :16, :16], same[:, other[0] :, other[1] :][:, :16, :16].flip(-1)

    def compute_loss(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        logits = F.normalize(model(batch[0]), dim=1) @ F.normalize(model(batch[1]), dim=1).T
        return F.cross_entropy(logits / 0.2, torch.arange(len(logits)))

    net = nn.Sequential(nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 8))
    return {"model": net, "loader": DataLoader(Augmented(images, images, draw), 16), "compute_loss": compute_loss}


def to_regress(images: torch.Tensor, values: torch.Tensor) -> dict[str, Any]:
    net = nn.Sequential(nn.Conv2d(images.shape[1], 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, values.shape[1], 1))
    return {"model": net, "loader": DataLoader(TensorDataset(images, values), 16), "loss_fn": nn.MSELoss()}


def centered() -> dict[str, Any]:
    """Symmetric objects in the middle of each image."""
    rows, columns = torch.meshgrid(torch.arange(24) - 11.5, torch.arange(24) - 11.5, indexing="ij")
    masks = (rows**2 + columns**2 < (3 + 6 * torch.rand(48, 1, 1, generator=seeded(3))) ** 2).long()
    return segmentation(masks[:, None] + 0.5 * torch.randn(48, 1, 24, 24, generator=seeded(4)), masks)


def depth() -> dict[str, Any]:
    images, _ = discs()
    return to_regress(images, F.avg_pool2d(images[:, :1], 3, 1, 1) ** 2)


def next_frame() -> dict[str, Any]:
    images, _ = discs(noise=0.1)
    return to_regress(images, images.roll(3, -1))


HEALTHY: dict[str, Callable[[], dict[str, Any]]] = {
    "aligned": lambda: segmentation(*discs()),
    "very noisy": lambda: segmentation(*discs(noise=4.0)),
    "unrelated": lambda: segmentation(torch.randn(48, 2, 24, 24, generator=seeded(5)), discs()[1]),
    "flipped together": lambda: augmented(both=True),
    "symmetric": centered,
    "depth": depth,
    "next frame": next_frame,
    "reconstruction": lambda: to_regress(discs()[0], discs(noise=0.0)[0]),
    "wide images": lambda: segmentation(*discs(width=40)),
    "cropped together": lambda: cropped(together=True),
    "boxes flipped with their images": lambda: located(boxes_flipped),
    "boxes shifted with their images": lambda: located(shifted(follows=True)),
    "sizes of flipped boxes": sizes_of_boxes,
    "two views": two_views,
    "empty masks": lambda: segmentation(discs()[0], discs()[1] * (torch.arange(48) % 2)[:, None, None]),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_aligned_targets_are_healthy(name: str) -> None:
    """Targets at the place of their images, whatever the noise and the symmetry."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**HEALTHY[name](), progress=False, checks=[CHECK])
    assert report.result(CHECK).status == "clean", report.result(CHECK)
