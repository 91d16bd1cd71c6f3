"""A feed whose batches are changed on their way, as a transform that the user would write changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nbdebug.setup.batch_source import Feed

__all__ = ["ChangedFeed"]


class ChangedFeed(Feed):
    """Everything that another feed gives, with one change made to every batch; the feed itself stays as it is."""

    def __init__(self, feed: Feed, change: Callable[[Any], Any]) -> None:
        super().__init__(feed.loader, feed.name)
        self._inner, self._change = feed, change

    def __iter__(self) -> Iterator[Any]:
        """Draw batches from the beginning, changed."""
        return map(self._change, iter(self._inner))

    def shared(self, count: int, poll: Callable[[], None] = lambda: None) -> Iterator[Any]:
        """Yield the first batches that all experiments share, changed."""
        return map(self._change, self._inner.shared(count, poll))

    def sample(self, index: Any) -> Any:
        """Read a sample as the feed does; it is changed where it is collated."""
        return self._inner.sample(index)

    def shuffled(self, total: int) -> Any:
        """Return the random order of the feed."""
        return self._inner.shuffled(total)

    def collate(self, samples: list[Any]) -> Any:
        """Put samples together as the loader does, and change them."""
        return self._change(self._inner.collate(samples))
