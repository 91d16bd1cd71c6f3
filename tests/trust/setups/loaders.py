"""Loaders of every kind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, WeightedRandomSampler

from tests.trust.setups import case, classify, loader, mlp, rows

NOISE = np.random.default_rng(11)


@case()
def two_workers() -> dict[str, Any]:
    return classify(mlp(), loader=loader(shuffle=True, num_workers=2))


@case(quick=True)
def persistent_workers_in_mid_epoch() -> dict[str, Any]:
    live = loader(shuffle=True, num_workers=1, persistent_workers=True, size=4)
    iterator = iter(live)
    next(iterator)
    return classify(mlp(), loader=live, also=[iterator])


@case(quick=True)
def in_mid_epoch() -> dict[str, Any]:
    live = loader(shuffle=True, size=4)
    iterator = iter(live)
    next(iterator)
    return classify(mlp(), loader=live, also=[iterator])


@case()
def own_generator() -> dict[str, Any]:
    return classify(mlp(), loader=loader(shuffle=True, generator=torch.Generator().manual_seed(5)))


@case()
def weighted_sampler() -> dict[str, Any]:
    sampler = WeightedRandomSampler(torch.ones(24).tolist(), 24, generator=torch.Generator().manual_seed(5))
    return classify(mlp(), loader=loader(sampler=sampler))


@case()
def batch_sampler() -> dict[str, Any]:
    data = rows()
    sampler = BatchSampler(RandomSampler(data), 8, drop_last=False)
    return classify(mlp(), loader=DataLoader(data, batch_sampler=sampler))


@case()
def sampler_with_a_state() -> dict[str, Any]:
    class Counting(torch.utils.data.Sampler):
        def __init__(self) -> None:
            self.epoch, self.history = 0, []

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            self.history.append(self.epoch)
            yield from np.random.default_rng(self.epoch).permutation(24).tolist()

        def __len__(self) -> int:
            return 24

    return classify(mlp(), loader=loader(sampler=Counting()))


@case()
def whole_batches_from_the_data_set() -> dict[str, Any]:
    values, labels = rows().tensors
    batches = [(values[i : i + 8], labels[i : i + 8]) for i in range(0, 24, 8)]
    return classify(mlp(), loader=DataLoader(batches, batch_size=None))


@case(quick=True)
def data_set_with_generators_and_a_cache() -> dict[str, Any]:
    class Augmented(Dataset):
        reads = 0

        def __init__(self) -> None:
            self.inner, self.cache = rows(), {}
            self.torch_generator = torch.Generator().manual_seed(2)
            self.generators = [np.random.default_rng(1), np.random.RandomState(1), random.Random(1)]

        def __len__(self) -> int:
            return len(self.inner)

        def __getitem__(self, index: int) -> Any:
            values, label = self.inner[index]
            self.cache[index] = label
            noise = torch.randn(6, generator=self.torch_generator) + NOISE.normal()
            scale = self.generators[0].random() + self.generators[1].rand() + self.generators[2].random()
            return values + 0.01 * scale * noise, label

    return classify(mlp(), loader=loader(Augmented(), shuffle=True), also=[NOISE])


@case()
def data_set_that_edits_itself() -> dict[str, Any]:
    class Editing(Dataset):
        def __init__(self) -> None:
            self.values, self.labels = (tensor.clone() for tensor in rows().tensors)

        def __len__(self) -> int:
            return 24

        def __getitem__(self, index: int) -> Any:
            self.values[index] *= 1.01
            return self.values[index], self.labels[index]

    return classify(mlp(), loader=loader(Editing()))


class Stream(IterableDataset):
    """Rows as a stream, with its place kept in the object."""

    def __init__(self) -> None:
        self.iterator = iter(list(range(24)))
        self.drawn = 0

    def __iter__(self) -> Iterator[Any]:
        values, labels = rows().tensors
        for index in self.iterator:
            self.drawn += 1
            yield values[index], labels[index]


@case(quick=True)
def iterable_data_set() -> dict[str, Any]:
    return classify(mlp(), loader=loader(Stream()))


@case()
def list_of_batches() -> dict[str, Any]:
    return classify(mlp(), loader=list(loader()))


@case(quick=True)
def own_reiterable() -> dict[str, Any]:
    class Own:
        def __init__(self) -> None:
            self.inner, self.epochs = loader(shuffle=True), 0

        def __iter__(self) -> Iterator[Any]:
            self.epochs += 1
            yield from self.inner

    return classify(mlp(), loader=Own())


@case()
def reiterable_around_live_workers() -> dict[str, Any]:
    class Prefetching:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __iter__(self) -> Iterator[Any]:
            yield from self.inner

        def __len__(self) -> int:
            return len(self.inner)

    live = loader(num_workers=1, persistent_workers=True, size=4)
    iterator = iter(live)
    next(iterator)
    return classify(mlp(), loader=Prefetching(live), also=[iterator])


@case(quick=True)
def subclass_with_its_own_iter() -> dict[str, Any]:
    class Shouting(DataLoader):
        """Counts what it gives, in a place that a shallow copy would share."""

        def __iter__(self) -> Iterator[Any]:
            self.__dict__.setdefault("counts", {"batches": 0})
            for batch in super().__iter__():
                self.counts["batches"] += 1
                yield batch

    live = Shouting(rows(), 8)
    list(live)
    return classify(mlp(), loader=live)


@case()
def factory() -> dict[str, Any]:
    return classify(mlp(), loader=lambda: (batch for batch in loader()))


@case(quick=True)
def factory_over_live_workers() -> dict[str, Any]:
    live = loader(shuffle=True, num_workers=1, persistent_workers=True, size=4)
    iterator = iter(live)
    next(iterator)
    return classify(mlp(), loader=lambda: iter(live), also=[live, iterator])


@case()
def train_val_and_test() -> dict[str, Any]:
    more = {"val_loader": loader(rows(16)), "test_loader": loader(rows(8), shuffle=True)}
    return classify(mlp(), loader=loader(shuffle=True), **more)
