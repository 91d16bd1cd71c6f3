"""A fourth round: what goes wrong in tutorials on images and codes, as forums tell it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.unseen import unseen
from tests.zoo.samples import digit_images, digit_rows, setup, split
from tests.zoo.tutorial_codes import Triplets, Vae, triplet_loss
from tests.zoo.tutorial_images import LeNet, SmallResNet, UNet, augmented, digit_net, discs, halves, transferred


def judged_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Train, and print the accuracy."""
    images, labels = batch
    optimizer.zero_grad()
    loss: torch.Tensor = loss_fn(model(images), labels)
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        (model(images).argmax(1) == labels).float().mean().item()
    return loss


@unseen("left-in-eval-mode")
def never_back_to_training() -> dict[str, Any]:
    """`model.eval()` for the accuracy, and no `model.train()` behind it."""
    return augmented(train_step=judged_step)


@unseen("invalid-labels", "wrong-loss-for-task", "unscaled-targets", "clamped-output")
def masks_of_255() -> dict[str, Any]:
    """Masks as they come out of a PNG."""
    images, masks = discs()
    return setup(UNet(), split(images, masks * 255, batch_size=16), nn.BCEWithLogitsLoss())


@unseen("parameters-missing-from-optimizer", where="fc")
def head_after_the_optimizer() -> dict[str, Any]:
    """The head is exchanged when the optimizer already holds the old one."""
    model = SmallResNet(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.fc = nn.Linear(64, 10)
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), optimizer=optimizer)


@unseen("frozen-parameters", "loss-not-differentiable", "step-never-taken", "untrained-parameters")
def head_frozen_as_well() -> dict[str, Any]:
    """Frozen after the head was put in, so that nothing is left to train."""
    model = transferred()
    for parameter in model.parameters():
        parameter.requires_grad = False
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), 1e-2)


def summed_divergence(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """A mean over pixels beside a sum over the batch."""
    x, _ = batch
    again, mu, logvar = model(x)
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return F.mse_loss(again, x.flatten(1)) + divergence


@unseen("loss-terms-unbalanced", "model-ignores-inputs", "inputs-ignored", "outputs-identical")
def code_that_says_nothing() -> dict[str, Any]:
    """The divergence outweighs the picture: the posterior collapses."""
    return setup(Vae(), split(*digit_images()), compute_loss=summed_divergence, lr=2e-3)


@unseen("unnormalized-inputs", "activations-off-scale", "learning-rate-too-low", "constant-inputs")
def divided_twice() -> dict[str, Any]:
    """Pixels between 0 and 1, divided by 255 once more."""
    images, labels = digit_images()
    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return setup(model, split(images / 255, labels, batch_size=32), nn.CrossEntropyLoss(), optimizer=optimizer)


@unseen("excessive-dropout")
def kept_instead_of_dropped() -> dict[str, Any]:
    """0.9 was meant to be kept."""
    train, val = halves()
    loaders = DataLoader(train, 64, shuffle=True), DataLoader(val, 128)
    return setup(digit_net(0.9), loaders, nn.CrossEntropyLoss(), 2e-3)


@unseen("labels-unrelated-to-inputs")
def pictures_shuffled_alone() -> dict[str, Any]:
    """`shuffle(X)` without `y`."""
    images, labels = digit_images()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(3))
    return setup(digit_net(), split(images[order], labels), nn.CrossEntropyLoss())


@unseen("split-shift")
def validation_as_read() -> dict[str, Any]:
    """Only the training data are normalized."""
    train, val = split(*digit_images())
    images = train.dataset.tensors[0]
    made: Any = [((image - images.mean()) / images.std(), label) for image, label in train.dataset]
    return setup(digit_net(), (DataLoader(made, 64, shuffle=True), val), nn.CrossEntropyLoss())


def divergence_of_probabilities(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """`KLDivLoss` wants logarithms as its first."""
    images, labels = batch
    wanted = 0.9 * F.one_hot(labels, 10) + 0.01
    return loss_fn(F.softmax(model(images), dim=1), wanted)


@unseen("probabilities-into-nll", "wrong-loss-for-task", "initial-loss-off")
def divergence_without_logarithm() -> dict[str, Any]:
    """Probabilities where log-probabilities are due."""
    loss_fn = nn.KLDivLoss(reduction="batchmean")
    return setup(LeNet(), split(*digit_images()), loss_fn, compute_loss=divergence_of_probabilities)


@unseen("non-finite-loss", "non-finite-forward", "non-finite-backward", "unusual-optimizer", "learning-rate-too-high")
def half_precision_throughout() -> dict[str, Any]:
    """`model.half()` with Adam, whose epsilon is nothing in half precision."""
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).half()
    return setup(model, split(rows.half(), labels), nn.CrossEntropyLoss(), 1e-3)


class SwappedTriplets(Triplets):
    """The two others are the wrong way round."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the stranger in the place of the kin."""
        anchor, kin, stranger = super().__getitem__(index)
        return anchor, stranger, kin


@unseen("cannot-overfit-batch", "labels-unrelated-to-inputs", "worse-than-baseline", "loss-sign-flipped", "loss-flat")
def strangers_drawn_near() -> dict[str, Any]:
    """Positive and negative are exchanged."""
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))
    data = SwappedTriplets(rows[:1200], labels[:1200]), SwappedTriplets(rows[1200:], labels[1200:])
    loaders = DataLoader(data[0], 64, shuffle=True), DataLoader(data[1], 128)
    return setup(model, loaders, nn.TripletMarginLoss(margin=1.0), compute_loss=triplet_loss, lr=1e-3)
