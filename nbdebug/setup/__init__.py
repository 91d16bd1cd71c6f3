"""The setup: the user's model, loaders, loss, optimizer and training step, held but never changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.setup.batch import Batch
from nbdebug.setup.batch_layout import BatchLayout, Reading, describe, read_batch, signature_of, unwrap
from nbdebug.setup.batch_source import Feed
from nbdebug.setup.checkpoint import checked_checkpoint
from nbdebug.setup.loader_adapters import checked_batch
from nbdebug.setup.loss import LossChoice
from nbdebug.setup.several import as_one_model, as_one_optimizer, kind_of_model, kind_of_optimizer
from nbdebug.setup.validation import checked_setup

__all__ = ["Batch", "Feed", "LossChoice", "Reading", "Setup", "unwrap"]


class Setup:
    """Everything that is examined. It is the only place that takes a batch of the user's apart."""

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module],
        loader: Any,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: Any = None,
        *,
        val_loader: Any = None,
        test_loader: Any = None,
        train_step: Callable[..., Any] | None = None,
        compute_loss: Callable[..., Any] | None = None,
        loss_parts: Callable[..., Any] | None = None,
        scheduler: Any = None,
        class_names: Sequence[str] | None = None,
        checkpoint: Any = None,
        sweep_samples: int = 4096,
        sweep_seconds: float = 10.0,
    ) -> None:
        one: nn.Module = as_one_model(model, has_program=train_step is not None or compute_loss is not None)
        optimizer = as_one_optimizer(optimizer, has_step=train_step is not None)
        checked_setup(
            one,
            loss_fn,
            optimizer,
            train_step=train_step,
            compute_loss=compute_loss,
            class_names=class_names,
            loss_parts=loss_parts,
            scheduler=scheduler,
        )
        self.model, self.loss_fn, self.optimizer, self.scheduler = one, loss_fn, optimizer, scheduler
        self.train_step, self.compute_loss, self.loss_parts = train_step, compute_loss, loss_parts
        self.class_names = tuple(str(name) for name in class_names) if class_names is not None else None
        self.checkpoint = checked_checkpoint(checkpoint)
        self.feed = Feed(loader, "loader")
        self.val_feed = Feed(val_loader, "val_loader") if val_loader is not None else None
        self.test_feed = Feed(test_loader, "test_loader") if test_loader is not None else None
        self.sweep_samples, self.sweep_seconds = sweep_samples, sweep_seconds  # the most that a look at the data reads
        self.assumed_loss: LossChoice | None = None
        self.highest_rates: tuple[float, ...] | None = None  # of the scheduler, once it was run ahead
        self.layout: BatchLayout | None = None  # of the batches, once a session has seen the model run on some
        self.meeting: Any = None  # of the processes of a distributed training, with what this one said there
        self.meeting_facts: Any = None
        self.isolation: dict[str, str] = {}  # what was run on a copy, and how that reached the model itself, if it did
        self._reading: Reading | None = None
        self.stands_for: Setup | None = None  # the setup whose sharded model this one stands in for
        self.no_copy = ""  # why no copy of the model can be made
        self.is_observed = False  # whether the user's own call of the model was looked at
        self.patches: tuple[Callable[[Any], None], ...] = ()  # what is done to every copy that is made of it

    def derived(self, *patches: Callable[[Any], None]) -> Setup:
        """Return a setup of the same things whose copies are patched; its feeds may be exchanged."""
        other = copy.copy(self)
        other.patches = (*self.patches, *patches)
        return other

    @property
    def feeds(self) -> list[Feed]:
        """Every source of data that there is."""
        return [feed for feed in (self.feed, self.val_feed, self.test_feed) if feed is not None]

    @property
    def device(self) -> torch.device:
        """Where the model lives; a model without tensors lives on the CPU."""
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            return tensor.device
        return torch.device("cpu")

    def reading_of(self, raw: Any) -> Reading:
        """Say how the model eats a batch like this; decided once, on the first batch."""
        if self._reading is None:
            checked_batch(raw)
            self._reading = read_batch(raw, signature_of(self.model))
        return self._reading

    @property
    def whole_batches(self) -> bool:
        """Whether the model is known to run on no part of a batch."""
        return self.layout is not None and self.layout.whole

    def read_as(self, reading: Reading) -> None:
        """Read every batch from now on as the user's own code was seen to."""
        self._reading = reading

    def batches(self, count: int, feed: Feed | None = None, poll: Callable[[], None] = lambda: None) -> list[Batch]:
        """Return the first batches of the training data, or of another feed, on the CPU side of things as drawn.

        They are drawn once for all. What the user's data set raises is said once, by its own check.
        """
        source, drawn = feed or self.feed, list[Batch]()
        try:
            for raw in source.shared(count, poll):
                drawn.append(self.wrap(raw))
        except NbdebugError:
            raise
        except Exception as error:
            if not drawn:
                raise NotApplicable(f"the loader fails ({type(error).__name__}); see sample-fails") from error
        if not drawn and source is self.feed:
            raise NotApplicable("the loader yields no batch; see empty-loader")
        return drawn

    def wrap(self, raw: Any) -> Batch:
        """Return a batch that shares no memory with the user's."""
        return Batch(raw, self.reading_of(raw)).clone()

    def name_of_class(self, label: int) -> str:
        """Return the user's name for a class, or its number."""
        known = self.class_names is not None and 0 <= label < len(self.class_names)
        return self.class_names[label] if known and self.class_names is not None else str(label)

    def description(self) -> dict[str, Any]:
        """Say in plain words what is examined, for the head of a report."""
        model = unwrap((self.stands_for or self).model)
        sizes = [p.numel() for p in model.parameters() if not is_lazy(p)]
        loss = self.loss_fn if self.loss_fn is not None else None
        named = (
            getattr(loss, "__name__", type(loss).__name__) if loss is not None else str(self.assumed_loss or "unknown")
        )
        return {
            "model": kind_of_model(model),
            "parameters": sum(sizes),
            "device": str(self.device),
            "loss": "compute_loss" if self.compute_loss is not None else named,
            "optimizer": kind_of_optimizer(self.optimizer),
            "batch": self._batch(),
            "samples": self.feed.total,
        }

    def _batch(self) -> str:
        """Return how a batch is read, and where its samples are once that is known."""
        if self._reading is None:
            return "not loaded"
        return describe(self._reading) + (f"; {self.layout}" if self.layout is not None else "")

    def live_parts(self) -> tuple[Any, ...]:
        """The user's own objects, whose generators and counters have to stay as they are."""
        loaders = [feed.loader for feed in self.feeds]
        functions = (self.loss_fn, self.train_step, self.compute_loss, self.loss_parts)
        return (self.model, self.optimizer, self.scheduler, *functions, *loaders)
