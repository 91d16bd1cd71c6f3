"""Load batches one after another for display, from copies, and load the same samples again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import torch

from nbdebug.core.control import Control
from nbdebug.errors import BadInput
from nbdebug.sandbox import guarded, make_sandbox
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import Batch, Feed, Setup
from nbdebug.setup.batch_layout import Signature, read_batch
from nbdebug.setup.feature_rows import digests_of
from nbdebug.setup.loader_adapters import checked_batch
from nbdebug.setup.read_samples import Draw, in_order
from nbdebug.setup.sample_dataset import fresh_reader
from nbdebug.views.batch_preview.judgment import Judgment, judged
from nbdebug.views.batch_preview.labels import Answer, answers_in
from nbdebug.views.batch_preview.parts import Taste
from nbdebug.views.batch_preview.pieces import count_of, front, leftovers, parts_of
from nbdebug.views.batch_preview.preview import BatchView, Part, SampleFacts, SampleView
from nbdebug.views.batch_preview.raw import raw_parts

__all__ = ["BatchSource", "glance"]

T = TypeVar("T")
LARGE = 320  # pixels of a sample that is looked at by itself
DRAWS = 5
ANYTHING = Signature(required=1, any_positional=True, any_keyword=True)


class BatchSource:
    """The batches of one loader in its order; the user's loader is never iterated, and a model runs as a copy."""

    def __init__(self, loader: Any, setup: Setup | None, taste: Taste, shown: int, control: Control) -> None:
        self.setup, self.shown, self.control = setup, shown, control
        self.feed = setup.feed if setup is not None else Feed(loader, "loader")
        self._taste = replace(taste, dataset=self.feed.dataset if self._has_index else getattr(loader, "dataset", None))
        self._source: Iterator[Draw] | None = None
        self._current: Draw | None = None
        self._number = self._draws = 0
        self._named: Callable[[int], str] = setup.name_of_class if setup is not None else str

    def names(self, names: tuple[str, ...] | None) -> None:
        """Use these names for the classes."""
        if names is not None:
            self._named = lambda label: names[label] if 0 <= label < len(names) else str(label)

    def next(self) -> BatchView:
        """Draw the next batch; after the last one, the first again."""
        return self._guarded(self._next, seed=self._number)

    def again(self) -> BatchView:
        """Read the samples of this batch again, with other random numbers, as another epoch would."""
        return self._guarded(self._again, seed=1000 + self._draws)

    def sample(self, place: int) -> SampleView:
        """Look at one sample of this batch by itself."""
        return self._guarded(lambda: self._sample(place), seed=0)

    @property
    def _has_index(self) -> bool:
        return self.feed.dataset is not None and not self.feed.gives_whole_batches

    def _guarded(self, look: Callable[[], T], seed: int) -> T:
        live = self.setup.live_parts() if self.setup is not None else self.feed.live_parts
        return guarded(look, live, self.control, seed=seed, snapshot=StateSnapshot(*live))

    def _wrap(self, raw: Any) -> Batch:
        if self.setup is not None:
            return self.setup.wrap(raw)
        checked_batch(raw)
        return Batch(raw, read_batch(raw, ANYTHING)).clone()

    def _next(self) -> BatchView:
        failures: list[str] = []
        for attempt in range(2):
            if self._source is None:
                self._source = in_order(self.feed, self._wrap, float("inf"), self.control.poll)
            for draw in self._source:
                failures += [f"Sample {f.index} fails while {f.doing} ({f.error[:200]})." for f in draw.failures]
                if draw.batch is not None:
                    self._current, self._draws = draw, 1
                    self._number += 1
                    return self._view(draw, failures)
            self._source, self._number = None, 0
            if attempt == 0 and self._current is not None:
                failures.append("That was the last batch; this is the first one again.")
        raise BadInput(
            "it yields no batch" + (f": {failures[0]}" if failures else ""),
            where="loader",
            expected="a loader with at least one batch that can be loaded",
            do="check len(loader.dataset), batch_size and drop_last, or the failing sample",
        )

    def _again(self) -> BatchView:
        draw = self._current
        if draw is None or not self._has_index:
            return self._next()
        samples = [self.feed.dataset[index] for index in draw.indices]
        self._draws += 1
        self._current = Draw(self._wrap(self.feed.collate(samples)), draw.indices)
        return self._view(self._current, [])

    def _view(self, draw: Draw, notes: list[str]) -> BatchView:
        batch = draw.batch
        assert batch is not None
        count = count_of(batch)
        shown = min(count, self.shown)
        parts = parts_of(batch, shown, self._taste)
        targets = self._targets(batch, count)
        judgment = self._judge(batch, count, shown)
        if shown < count:
            notes = [*notes, f"The first {shown} of {count} samples are shown."]
        if left := leftovers(batch):
            notes = [*notes, f"Not passed to the model: {', '.join(left)}."]
        known = Counter(self._named(c) for answer in targets or () for c in answer.classes or ())
        return BatchView(
            number=self._number,
            of=self.feed.batch_count,
            size=count,
            parts=(*parts, *judgment.parts),
            samples=tuple(_facts(draw, targets, judgment, i, count) for i in range(shown)),
            notes=(*notes, *judgment.notes, *self.feed.notes),
            model=type(self.setup.model).__name__ if self.setup is not None else "",
            draws=self._draws,
            class_counts=tuple(known.most_common()),
            can_redraw=self._has_index,
        )

    def _targets(self, batch: Batch, count: int) -> list[Answer] | None:
        target = batch.target if batch.has_target else None
        ready = front(target, count) if isinstance(target, torch.Tensor) else None
        return answers_in(ready, self._named) if ready is not None else None

    def _judge(self, batch: Batch, count: int, shown: int) -> Judgment:
        if self.setup is None:
            return Judgment()
        sandbox = make_sandbox(self.setup, self.control)
        return judged(sandbox, batch, count, shown, self._named, self._taste)

    def _sample(self, place: int) -> SampleView:
        draw = self._current
        assert draw is not None and draw.batch is not None
        taste = replace(self._taste, most=LARGE)
        index = _index(draw, place, count_of(draw.batch))
        large = [replace(p, items=p.items[place : place + 1]) for p in parts_of(draw.batch, place + 1, taste)]
        reader = fresh_reader(self.feed, self._wrap) if self._has_index and index is not None else None
        if reader is None or index is None:
            return SampleView(
                index, tuple(large), notes=("This loader has no index, so a sample cannot be loaded again.",)
            )
        read = [reader.read(index, 1 + seed) for seed in range(DRAWS)]
        draws = [parts_of(batch, 1, self._taste) for batch in read]
        again = [_joined([parts[i] for parts in draws]) for i in range(len(draws[0])) if draws[0][i].role == "input"]
        raw = raw_parts(reader.dataset, index, taste)
        if all(digests_of(batch) == digests_of(read[0]) for batch in read):
            return SampleView(
                index, tuple(large), raw=raw, notes=("Loading it again returns the same values every time.",)
            )
        return SampleView(index, tuple(large), tuple(again), raw)


def glance(setup: Setup, batch: Batch, shown: int, control: Control) -> BatchView:
    """Show a batch that was drawn already, without a prediction; nothing is loaded for it."""
    source = BatchSource(setup.feed.loader, None, Taste(), shown, control)
    source._number, source._named = 1, setup.name_of_class
    return source._view(Draw(batch), [])


def _facts(draw: Draw, targets: list[Answer] | None, judgment: Judgment, place: int, count: int) -> SampleFacts:
    target = targets[place] if targets else None
    answer = judgment.answers[place] if judgment.answers else None
    right = None
    if target is not None and answer is not None and target.classes is not None and answer.classes is not None:
        right = target.classes == answer.classes
    return SampleFacts(
        index=_index(draw, place, count),
        target=target.text if target is not None else "",
        predicted=answer.text if answer is not None else "",
        confidence=answer.confidence if answer is not None else None,
        loss=judgment.losses[place] if judgment.losses else None,
        right=right,
    )


def _index(draw: Draw, place: int, count: int) -> int | None:
    return draw.indices[place] if len(draw.indices) == count == len(set(draw.indices)) else None


def _joined(parts: list[Part]) -> Part:
    return replace(parts[0], says=(), items=tuple(part.items[0] for part in parts))
