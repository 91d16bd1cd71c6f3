"""A fifth round: two problems at once, and trainings that only crawl. Each has its sound twin."""

from __future__ import annotations

import torch
from torch import nn

from tests.unseen import unseen
from tests.unseen.fifth_parts import Made, SetNet, clouds, loaders, made, plants, spread, tower, waves


@unseen("unnormalized-inputs", "learning-rate-too-low", "unscaled-targets", "feature-scales-differ")
def far_away_and_far_too_slow(is_faulty: bool = True) -> Made:
    """Inputs near 5,000, behind sigmoids, under plain SGD with a tiny rate."""
    x, y = waves()
    model = tower(48, 32, 4, nn.Tanh)
    sgd = torch.optim.SGD(model.parameters(), lr=3e-4 if is_faulty else 0.1, momentum=0.9)
    return made(model, loaders(x + 5000 if is_faulty else x, y), nn.CrossEntropyLoss(), sgd)


@unseen("wrong-loss-for-task", "clamped-output", "initialization-off-scale", "saturated-units")
def wrong_head_and_wrong_start(is_faulty: bool = True) -> Made:
    """Weights of unit variance behind a sigmoid that is compared with targets by their squares."""
    x, y = plants()
    model = tower(8, 64)
    model = nn.Sequential(*spread(model, 1.5), nn.Sigmoid()) if is_faulty else model
    sgd = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return made(model, loaders(x, y), nn.MSELoss(), sgd)


@unseen("initialization-off-scale", "learning-rate-too-low", "training-slow", "vanishing-gradients")
def thousandth_under_sgd(is_faulty: bool = True) -> Made:
    """Very small weights in a network over sets."""
    model = SetNet()
    model = spread(model, 0.01) if is_faulty else model
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return made(model, loaders(*clouds()), nn.CrossEntropyLoss(), sgd)


@unseen("initialization-off-scale", "saturated-units", "activations-off-scale", "initial-loss-off")
def weights_of_ten(is_faulty: bool = True) -> Made:
    """`uniform_(-1, 1)` for wide layers of a network over pictures of signals."""
    model = tower(48, 128, 4)
    if is_faulty:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -1, 1)
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.01))
