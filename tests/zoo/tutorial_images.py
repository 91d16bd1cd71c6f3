"""Healthy set-ups on images as tutorials write them: convolutions, residuals, masks, codes, a frozen backbone."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.examples import healthy
from tests.zoo.samples import digit_images, seeded, setup, split


class ShiftedDigits(Dataset[Any]):
    """Digits that are moved by up to one pixel in training, normalized with their mean and spread."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, train: bool) -> None:
        self.images, self.labels, self.train = images, labels, train

    def __len__(self) -> int:
        """Count the digits."""
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return one digit, moved in training."""
        image = self.images[index]
        if self.train:
            down, right = torch.randint(-1, 2, (2,)).tolist()
            image = torch.roll(image, (down, right), (1, 2))
        return (image - 0.305) / 0.376, int(self.labels[index])


def halves() -> tuple[ShiftedDigits, ShiftedDigits]:
    """Return digits to train on and digits to judge by."""
    images, labels = digit_images()
    return ShiftedDigits(images[:1400], labels[:1400], True), ShiftedDigits(images[1400:], labels[1400:], False)


def digit_net(dropout: float = 0.25) -> nn.Sequential:
    """Two blocks of convolution, normalization and dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(dropout / 2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(128, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 10),
    )  # fmt: skip


def augmented(**more: Any) -> dict[str, Any]:
    """Put the network and its moved digits together."""
    train, val = halves()
    loaders = DataLoader(train, 64, shuffle=True, drop_last=True), DataLoader(val, 128)
    return setup(digit_net(), loaders, nn.CrossEntropyLoss(), 2e-3, **more)


@healthy(epochs=8, accuracy=0.85)
def moved_digits() -> dict[str, Any]:
    """BatchNorm, dropout and augmentation, with a rate that falls in steps."""
    made = augmented()
    return {**made, "scheduler": torch.optim.lr_scheduler.StepLR(made["optimizer"], 100, 0.5)}


class LeNet(nn.Module):
    """The network of the first tutorial of all."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 16, 3, padding=1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 2 * 2, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of ten digits."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


@healthy(epochs=5, accuracy=0.85)
def four_at_a_time() -> dict[str, Any]:
    """Batches of four, plain momentum and pixels between -1 and 1, as with CIFAR."""
    images, labels = digit_images()
    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    return setup(model, split(images * 2 - 1, labels, batch_size=4), nn.CrossEntropyLoss(), optimizer=optimizer)


class Digits(nn.Module):
    """The network of the well-known MNIST example, made smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, 1), nn.Conv2d(16, 32, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities."""
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = torch.flatten(self.dropout1(x), 1)
        return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)


@healthy(epochs=6, accuracy=0.85)
def mnist_example() -> dict[str, Any]:
    """Adadelta with a rate of one, and `nll_loss`."""
    images, labels = digit_images()
    model = Digits()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    return setup(model, split((images - 0.305) / 0.376, labels), F.nll_loss, optimizer=optimizer)


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.down = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the shortcut."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.down(x))


class SmallResNet(nn.Module):
    """A ResNet with three stages."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.layers = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


@healthy(epochs=5, accuracy=0.9)
def small_resnet() -> dict[str, Any]:
    """Momentum, weight decay and one cycle of the rate."""
    model, data = SmallResNet(), split(*digit_images())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=5 * len(data[0]))
    return setup(model, data, nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler)


def conv(inside: int, outside: int) -> nn.Sequential:
    """A convolution with its normalization."""
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Down, up, and across."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.bottom = conv(1, 8), conv(8, 16), conv(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.back2, self.back1, self.out = conv(32, 16), conv(16, 8), nn.Conv2d(8, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a logit for each pixel."""
        one = self.one(x)
        two = self.two(F.max_pool2d(one, 2))
        up = self.up2(self.bottom(F.max_pool2d(two, 2)))
        up = self.back2(torch.cat([up, two], 1))
        return self.out(self.back1(torch.cat([self.up1(up), one], 1)))


def discs(count: int = 320, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy images of a bright disc on an uneven ground, and where the disc is."""
    generator = seeded(7)
    middle = 4 + 8 * torch.rand(count, 2, generator=generator)
    radius = 2 + 2 * torch.rand(count, generator=generator)
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    mask = ((y - middle[:, :1, None]) ** 2 + (x - middle[:, 1:, None]) ** 2 < radius[:, None, None] ** 2).float()
    ground = torch.rand(count, 1, 1, generator=generator) * x / size
    images = ground + mask + 0.3 * torch.randn(count, size, size, generator=generator)
    return images[:, None], mask[:, None]


def bce_and_dice(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy and one minus the Dice coefficient."""
    p = torch.sigmoid(logits)
    dice = (2 * (p * masks).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + masks.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, masks) + 1 - dice.mean()


@healthy(epochs=8)
def masks_by_unet() -> dict[str, Any]:
    """Segmentation of one thing, with the loss that everybody takes."""
    return setup(UNet(), split(*discs(), batch_size=16), bce_and_dice, 3e-3)


@functools.cache
def trained_features() -> dict[str, torch.Tensor]:
    """Train a network to tell odd digits from even ones, and give what it has learnt but for its head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        model, (train, _) = SmallResNet(2), split(*digit_images())
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for images, labels in (batch for _ in range(2) for batch in train):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels % 2).backward()
            optimizer.step()
    return {name: value for name, value in model.state_dict().items() if not name.startswith("fc")}


def transferred() -> SmallResNet:
    """Return a frozen backbone with a head of ten classes."""
    model = SmallResNet(2)
    model.load_state_dict(trained_features(), strict=False)
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(64, 10)
    return model


@healthy(epochs=10, accuracy=0.8)
def head_on_a_frozen_backbone() -> dict[str, Any]:
    """Only the new head is trained, at a high rate."""
    model = transferred()
    optimizer = torch.optim.Adam(model.fc.parameters(), lr=1e-2)
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), optimizer=optimizer)
