"""Batches are drawn from copies: the user's loader is never iterated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SubsetRandomSampler, TensorDataset

from nbdebug.errors import BadInput
from nbdebug.setup import Feed
from nbdebug.setup import loader_copy as replica
from nbdebug.setup.loader_copy import copied_loader

DATA = TensorDataset(torch.arange(24.0)[:, None], torch.arange(24) % 3)


class Guarded(DataLoader):
    """Lets nobody iterate the one object that is the user's."""

    live: list[Any] = []

    def __iter__(self) -> Any:
        assert self not in self.live, "the user's own loader was iterated"
        self.draws = getattr(self, "draws", 0) + 1
        return super().__iter__()


def first_column(batch: Any) -> list[int]:
    return [int(value) for value in batch[0].flatten()]


def test_the_live_loader_is_never_iterated() -> None:
    loader = Guarded(DATA, 8)
    Guarded.live.append(loader)
    feed = Feed(loader)
    assert len(feed.take(2)) == 2 and len(list(feed)) == 3
    assert feed.order() == list(range(24)) and feed.total == 24 and feed.batch_count == 3
    assert not hasattr(loader, "draws")


def test_workers_are_not_started() -> None:
    loader = DataLoader(DATA, 8, num_workers=2, persistent_workers=True, prefetch_factor=4)
    assert len(Feed(loader).take(3)) == 3
    assert loader._iterator is None and loader.num_workers == 2


def test_a_live_iterator_goes_on() -> None:
    loader = DataLoader(DATA, 4, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    assert first_column(next(iterator)) == [0, 1, 2, 3]
    Feed(loader).take(6)
    assert first_column(next(iterator)) == [4, 5, 6, 7]


def test_draws_what_the_user_would_draw_next() -> None:
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(DATA, 8, shuffle=True, generator=generator)
    drawn, state = first_column(Feed(loader).take(1)[0]), generator.get_state()
    assert torch.equal(state, torch.Generator().manual_seed(3).get_state())
    assert drawn == first_column(next(iter(loader)))


def test_order_follows_the_sampler() -> None:
    sampler = SubsetRandomSampler([5, 6, 7], generator=torch.Generator().manual_seed(1))
    assert sorted(Feed(DataLoader(DATA, 2, sampler=sampler)).order() or []) == [5, 6, 7]
    batches = DataLoader(DATA, batch_sampler=BatchSampler([9, 8, 7], 2, drop_last=True))
    assert Feed(batches).order() == [9, 8]
    assert Feed([(1, 2)]).order() is None


def test_collates_as_the_loader_does() -> None:
    loader = DataLoader(DATA, 8, collate_fn=lambda samples: {"count": len(samples)})
    feed = Feed(loader)
    assert feed.collate([DATA[0], DATA[1]]) == {"count": 2}
    assert feed.take(1) == [{"count": 8}]


def test_a_data_set_that_writes_to_itself() -> None:
    class Counting(Dataset):
        def __init__(self) -> None:
            self.reads, self.generator = [], np.random.default_rng(0)

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            self.reads.append(index)
            return torch.tensor([self.generator.random()])

    data = Counting()
    state = data.generator.bit_generator.state
    Feed(DataLoader(data, 4)).take(2)
    assert data.reads == [] and data.generator.bit_generator.state == state


def test_large_data_is_shared_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(Dataset):
        def __init__(self) -> None:
            self.values, self.reads = torch.zeros(300_000, 2), 0

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            self.reads += 1
            return self.values[index]

    monkeypatch.setattr(replica, "COPY_AT_MOST_BYTES", 1_000_000)
    data, notes = Large(), []
    copy = copied_loader(DataLoader(data, 4), notes, "loader")
    list(copy)
    assert copy.dataset.values is data.values and copy.dataset is not data
    assert data.reads == 0 and copy.dataset.reads == 8
    assert any("too large to copy" in note for note in notes)


def test_streams_begin_anew() -> None:
    class Stream(IterableDataset):
        def __init__(self) -> None:
            self.source = iter(range(6))

        def __iter__(self) -> Iterator[torch.Tensor]:
            return (torch.tensor([value]) for value in self.source)

    data = Stream()
    feed = Feed(DataLoader(data, 2))
    assert len(feed.take(9)) == 3 and len(feed.take(9)) == 3
    assert next(data.source) == 0
    assert feed.total is None and feed.dataset is None


def test_a_one_shot_stream_is_refused() -> None:
    class OneShot(IterableDataset):
        def __init__(self) -> None:
            self.source = (torch.tensor([value]) for value in range(6))

        def __iter__(self) -> Iterator[torch.Tensor]:
            return self.source

    data = OneShot()
    with pytest.raises(BadInput, match="only once"):
        Feed(DataLoader(data, 2)).take(1)
    assert int(next(data.source)) == 0


def test_an_open_file_is_read_by_another_handle(tmp_path: Any) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("\n".join(map(str, range(6))))

    class Lines(IterableDataset):
        def __init__(self) -> None:
            self.file = open(path)  # noqa: SIM115 - open on purpose

        def __iter__(self) -> Iterator[torch.Tensor]:
            while line := self.file.readline():
                yield torch.tensor([float(line)])

    data = Lines()
    data.file.readline()
    assert len(Feed(DataLoader(data, 1)).take(9)) == 5
    assert data.file.readline() == "1\n"
    data.file.close()


def test_factories_and_reiterables() -> None:
    made = []

    def factory() -> Any:
        made.append(1)
        return (batch for batch in DataLoader(DATA, 8))

    feed = Feed(factory)
    assert len(feed.take(5)) == 3 and len(feed.take(5)) == 3 and made == []  # its notes go to a copy

    class Own:
        def __init__(self) -> None:
            self.epoch, self.random = 0, random.Random(0)

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            return iter([self.random.randrange(100)])

    own = Own()
    state, feed = own.random.getstate(), Feed(own)
    assert feed.take(1) == feed.take(1)
    assert own.epoch == 0 and own.random.getstate() == state


def test_one_batch_is_a_loader_with_a_note() -> None:
    feed = Feed((torch.zeros(4, 2), torch.zeros(4)))
    assert len(feed.take(3)) == 1 and "single batch" in feed.notes[0]


def test_a_collate_function_with_a_memory() -> None:
    seen: list[int] = []

    def collate(samples: list[Any]) -> int:
        seen.append(len(samples))
        return len(samples)

    assert Feed(DataLoader(DATA, 8, collate_fn=collate)).take(2) == [8, 8]
    assert seen == []
