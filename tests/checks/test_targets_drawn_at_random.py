"""Failing examples whose targets are noise."""

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
from tests.zoo.samples import digit_images, digit_rows

CHECK = "targets-drawn-at-random"
Compute = Callable[[nn.Module, Any, Any], torch.Tensor]


def rows(compute: Compute, *last: nn.Module) -> dict[str, Any]:
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), *last)
    return {"model": net, "loader": DataLoader(TensorDataset(digit_rows()[0]), 32), "compute_loss": compute}


@failing_example(CHECK, where="loss_fn")
def noise_drawn_twice() -> dict[str, Any]:
    """A denoiser whose target is not the noise that was added."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        x, noise = batch[0], torch.randn_like(batch[0])
        return F.mse_loss(model(x + noise), torch.randn_like(x))  # fixed: return F.mse_loss(model(x + noise), noise)

    return rows(compute)


@failing_example(CHECK, where="loss_fn")
def noise_drawn_in_the_shape_of_the_noise() -> dict[str, Any]:
    """The noise that was added gives the target its shape, and nothing else."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        noise = torch.randn_like(batch[0])
        return F.mse_loss(model(batch[0] + noise), torch.randn_like(noise))

    return rows(compute)


class Denoiser(nn.Module):
    """A diffusion model that computes its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Predict noise, and compare it with other noise."""
        noise, level = torch.randn_like(x), torch.rand(len(x), 1, 1, 1)
        predicted = self.net(level.sqrt() * x + (1 - level).sqrt() * noise)
        return {"loss": (predicted - torch.randn(x.shape)).abs().mean(), "predicted": predicted}


@failing_example(CHECK, where="loss_fn")
def noise_drawn_in_the_model() -> dict[str, Any]:
    """The mistake stands in the forward pass, and the error is written by hand."""
    return {"model": Denoiser(), "loader": DataLoader(TensorDataset(digit_images()[0]), 32)}


@failing_example(CHECK, where="train_step")
def classes_drawn_in_the_step() -> dict[str, Any]:
    """The loop replaces the labels."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), torch.randint(0, 10, (len(batch[0]),)))
        loss.backward()
        optimizer.step()
        return float(loss)

    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    loader = DataLoader(TensorDataset(*digit_rows()), 32)
    return {"model": net, "loader": loader, "train_step": step, "optimizer": torch.optim.SGD(net.parameters(), 0.1)}


@failing_example(CHECK, where="loss_fn")
def noise_added_in_place() -> dict[str, Any]:
    """The clean image is the noisy one by the time it is compared with."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        noisy = batch[0]
        noisy += 0.5 * torch.randn_like(noisy)
        return F.mse_loss(model(noisy), batch[0])

    return rows(compute)


@failing_example(CHECK, where="train_step")
def noise_added_in_place_in_a_step() -> dict[str, Any]:
    """A convolution, and a step of its own."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        clean = batch[0]
        noisy = clean.add_(torch.randn_like(clean) * 0.4)
        optimizer.zero_grad()
        loss = (model(noisy) - clean).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    loader = DataLoader(TensorDataset(digit_images()[0]), 32)
    return {"model": net, "loader": loader, "train_step": step, "optimizer": torch.optim.SGD(net.parameters(), 0.1)}


def copied_before(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    noisy = batch[0].clone()
    noisy += 0.5 * torch.randn_like(noisy)
    return F.mse_loss(model(noisy), batch[0])


def dequantized_in_place(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    batch[0].add_(torch.rand_like(batch[0]) / 64)
    return F.mse_loss(model(batch[0]), batch[0])


def kept_before(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    clean = batch[0].clone()
    batch[0].add_(0.5 * torch.randn_like(clean))
    return F.mse_loss(model(batch[0]), clean)


def normalized_in_place(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    batch[0].mul_(0.5)
    return F.mse_loss(model(batch[0]), batch[0])


def denoising(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    noise = torch.randn_like(batch[0])
    return F.mse_loss(model(batch[0] + noise), noise)


def flow_matching(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    start, time = torch.randn_like(batch[0]), torch.rand(len(batch[0]), 1)
    return F.mse_loss(model(time * batch[0] + (1 - time) * start), batch[0] - start)


def noisy_real_labels(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    scores = model(batch[0]).mean(1)
    return F.binary_cross_entropy_with_logits(scores, 0.9 + 0.1 * torch.rand(len(scores)))


def sliced_wasserstein(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    prior = torch.randn(len(batch[0]), 64)
    return F.mse_loss(model(batch[0]).sort(0).values, prior.sort(0).values)


def random_masks(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    kept = (torch.rand_like(batch[0]) > 0.5).float()
    return (((model(batch[0] * kept) - batch[0]) ** 2) * (1 - kept)).mean()


def teacher_of_random_inputs(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
    points = torch.rand(32, 64)
    return F.mse_loss(model(points), points.cos())


HEALTHY = (
    copied_before,
    dequantized_in_place,
    kept_before,
    normalized_in_place,
    denoising,
    flow_matching,
    noisy_real_labels,
    sliced_wasserstein,
    random_masks,
    teacher_of_random_inputs,
)


@pytest.mark.parametrize("compute", HEALTHY, ids=lambda compute: compute.__name__)
def test_noise_that_is_seen_is_healthy(compute: Compute) -> None:
    """The prediction depends on the draws, or the target on the data."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**rows(compute), progress=False, checks=[CHECK])
    assert report.result(CHECK).status == "clean", report.result(CHECK)


class Beacons(Dataset[Any]):
    """One bright spot in each image, whose column is the target; half of them are flipped when they are read."""

    def __init__(self, size: int, seed: int, *, assigned: bool, augment: bool = True) -> None:
        random = torch.Generator().manual_seed(seed)
        self.columns = torch.randint(0, 16, (size,), generator=random)
        self.images = 0.1 * torch.randn(size, 1, 8, 16, generator=random)
        self.images[torch.arange(size), 0, :, self.columns] += 2
        self.assigned, self.augment = assigned, augment

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Flip the image, or throw the flipped image away, and mirror the column."""
        image, column = self.images[index], self.columns[index] / 15
        if self.augment and float(torch.rand(())) < 0.5:
            flipped = image.flip(-1)
            image, column = flipped if self.assigned else image, 1 - column
        return image, column[None]


def beacons(*, assigned: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 1))
    return {
        "model": model,
        "loader": DataLoader(Beacons(400, 0, assigned=assigned), 32, shuffle=True),
        "val_loader": DataLoader(Beacons(100, 1, assigned=assigned, augment=False), 50),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@failing_example(CHECK, where="loader")
def flipped_image_thrown_away() -> dict[str, Any]:
    """The flipped copy is never assigned, and the target is mirrored."""
    return beacons(assigned=False)  # fixed: return beacons(assigned=True)


class Denoised(Dataset[Any]):
    """Rows with noise that is drawn when they are read; the loss adds it and asks for it."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a row and its noise."""
        return torch.full((6,), index / 100), torch.randn(6)


def test_noise_of_the_data_set_that_the_model_reads_is_fine() -> None:
    def compute(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        clean, noise = batch
        return F.mse_loss(model(clean + noise), noise)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6))
    found = {"model": model, "loader": DataLoader(Denoised(), 20, shuffle=True), "compute_loss": compute}
    assert nbdebug.diagnose(**found, progress=False, checks=[CHECK]).result(CHECK).status == "clean"
