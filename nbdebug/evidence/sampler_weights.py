"""How often a weighted sampler draws samples of each class, against how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Setup
from nbdebug.setup.sample_dataset import fresh_reader

__all__ = ["SamplerWeights", "sampler_weights"]


@dataclass(frozen=True)
class SamplerWeights:
    """For each class its number among some samples, drawn evenly, and the mean weight that the sampler gives them."""

    classes: tuple[tuple[int, float], ...]


SAMPLES = 400  # read whatever their weight


@probe(quick=False)
def sampler_weights(setup: Setup, control: Control) -> SamplerWeights:
    """Read the classes of some samples, and the weights of the sampler for them."""
    loader, total = setup.feed.loader, setup.feed.total or 0
    sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", None) or getattr(loader, "sampler", None)
    if not isinstance(loader, DataLoader) or not isinstance(sampler, WeightedRandomSampler):
        raise NotApplicable("no WeightedRandomSampler draws the samples")
    weights, reader = torch.as_tensor(sampler.weights).double().cpu(), fresh_reader(setup.feed, setup.wrap)
    if reader is None or len(weights) != total:
        raise NotApplicable("there is not one weight for each sample of the data set")
    order = np.random.default_rng(0).permutation(total)[:SAMPLES].tolist()
    found: dict[int, list[float]] = {}
    for number, index in enumerate(order):
        control.progress(number / len(order), "reading the classes that the sampler weights")
        targets = list(reader.read(index, 0).targets.values())
        if len(targets) != 1 or targets[0].numel() != 1 or targets[0].is_floating_point():
            raise NotApplicable("there is not one class for each sample")
        found.setdefault(int(targets[0]), []).append(float(weights[index]))
    return SamplerWeights(tuple((len(each), sum(each) / len(each)) for _, each in sorted(found.items())))
