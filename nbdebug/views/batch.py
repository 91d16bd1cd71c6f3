"""`nbdebug.show_batch`: what a network really receives, after transforms and collate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbdebug.core.control import Control
from nbdebug.errors import BadInput, plainly
from nbdebug.setup import Setup
from nbdebug.views import batch_forms
from nbdebug.views.batch_preview.parts import Taste
from nbdebug.views.batch_preview.preview import BatchView, SampleView
from nbdebug.views.batch_preview.source import BatchSource
from nbdebug.views.batch_preview.words import words_of
from nbdebug.views.view import View

if TYPE_CHECKING:
    from torch import nn

__all__ = ["BatchViewer", "show_batch"]

KEPT = 16  # batches that can be gone back to


@plainly
def show_batch(
    loader: Any,
    model: nn.Module | None = None,
    loss_fn: Callable[..., Any] | None = None,
    *,
    compute_loss: Callable[..., Any] | None = None,
    class_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    tokenizer: Any = None,
    samples: int = 64,
) -> BatchViewer:
    """Show a batch as the network receives it: pictures, rows, tokens or curves, with their labels.

    What had to be recognized or undone for display (the order of channels, a normalization, padding) is said. With a
    model, each sample also has its prediction, confidence and loss, from a copy in eval mode. `tokenizer` may be a
    tokenizer, a function from an id to a word, or a vocabulary. Your loader is not iterated and your model not touched.

    Args:
        loader: The DataLoader, or any iterable of batches.
        model: A model whose predictions are shown with the samples.
        loss_fn: The loss that is shown for each sample; without one it is inferred.
        compute_loss: `compute_loss(model, batch, loss_fn) -> loss`: how a batch that is not a pair is used.
        class_names: Names of the classes, for labels and predictions.
        column_names: Names of the columns of a table.
        tokenizer: A tokenizer, a function from an id to a word, or a vocabulary.
        samples: The most samples that are shown.
    """
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise BadInput(
            f"it is {samples!r}", where="samples", expected="the number of samples to show, >= 1", do="write samples=64"
        )
    words, padding = words_of(tokenizer)
    taste = Taste(columns=_names(column_names, "column_names") or (), words=words, padding=padding)
    setup = None
    if model is not None:
        setup = Setup(model, loader, loss_fn, compute_loss=compute_loss, class_names=class_names)
    source = BatchSource(loader, setup, taste, samples, Control())
    source.names(_names(class_names, "class_names"))
    return BatchViewer(source)


class BatchViewer(View):
    """The batch at hand, live in a notebook; `next()`, `again()` and `sample(place)` do the same from code."""

    name = "batch"
    actions = (("previous", "Previous batch"), ("next", "Next batch"), ("again", "Resample"))

    def __init__(self, source: BatchSource) -> None:
        super().__init__(source.control)
        self._source = source
        self._batches = [source.next()]
        self._place = 0

    @property
    def batch(self) -> BatchView:
        """The batch at hand as plain numbers, texts and small arrays."""
        return self._batches[self._place]

    def next(self) -> BatchViewer:
        """Go on to the next batch."""
        if self._place + 1 < len(self._batches):
            self._place += 1
        else:
            self._batches = [*self._batches, self._source.next()][-KEPT:]
            self._place = len(self._batches) - 1
        return self._shown()

    def previous(self) -> BatchViewer:
        """Go back to the batch before, as it was drawn."""
        self._place = max(0, self._place - 1)
        return self._shown()

    def again(self) -> BatchViewer:
        """Draw the same samples again, to see what augmentation makes of them."""
        self._batches[-1] = self._source.again()
        self._place = len(self._batches) - 1
        return self._shown()

    def sample(self, place: int) -> SampleView:
        """Look at one sample by itself: large, drawn several times, and before its transforms."""
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(self.batch.samples):
            raise BadInput(
                f"it is {place!r}",
                where="place",
                expected=f"the position of a sample in the batch, 0 to {len(self.batch.samples) - 1}",
                do="write viewer.sample(0) for the first one",
            )
        if self._place + 1 < len(self._batches):
            return _from_before(self.batch, place)
        return self._source.sample(place)

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws."""
        return batch_forms.as_data(self.batch) | {"hasPrevious": self._place > 0}

    @property
    def html(self) -> str:
        """The static page of this batch."""
        return batch_forms.as_html(self.batch)

    @property
    def png(self) -> bytes:
        """The pictures of this batch as one picture."""
        return batch_forms.as_png_of(self.batch)

    def __repr__(self) -> str:
        """Say in one line which batch it is."""
        return f"<nbdebug {batch_forms.title_of(self.batch)}>"

    def __str__(self) -> str:
        """Return the batch as text."""
        return batch_forms.as_text(self.batch)

    def _shown(self) -> BatchViewer:
        self._refresh()
        return self

    def _answer(self, job: tuple[str, Any, Any]) -> None:
        """Go to another batch, draw anew, or send one sample."""
        action, place, _ = job
        if action in ("next", "previous", "again"):
            getattr(self, action)()
        elif action == "sample" and self._widget is not None:
            self._widget.detail = batch_forms.sample_data(self.sample(int(place)), int(place))


def _from_before(batch: BatchView, place: int) -> SampleView:
    """Show a sample of a batch that was left behind as it was drawn then."""
    large = tuple(replace(part, items=part.items[place : place + 1]) for part in batch.parts)
    note = "Earlier batches cannot be resampled; go to the newest batch to resample."
    return SampleView(batch.samples[place].index, large, notes=(note,))


def _names(names: Any, where: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence):
        try:
            names = list(names) if not isinstance(names, str) else None
        except TypeError:
            names = None
    if names is None:
        raise BadInput("it is not a list", where=where, expected="a list of names", do=f'write {where}=["a", "b"]')
    return tuple(str(name) for name in names)
