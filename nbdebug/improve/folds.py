"""k-fold cross-validation on a copy, for data sets that are too small for a validation set of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.finding import plain
from nbdebug.errors import BadInput, NotApplicable, plainly
from nbdebug.improve.scoring import Metric, judged
from nbdebug.report.progress import control_shown
from nbdebug.sandbox import Sandbox, guarded, make_sandbox
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import Setup

__all__ = ["Folds", "k_fold"]


@dataclass(frozen=True)
class Folds:
    """The error of each fold, trained from a fresh start on the other folds."""

    measure: str
    errors: tuple[float, ...]
    trained: tuple[float, ...]
    epochs: int
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The error over all folds."""
        return float(np.mean(self.errors))

    @property
    def interval(self) -> tuple[float, float]:
        """Where the error lies with 95 % confidence, by Student's t over the folds."""
        from scipy.stats import t

        half = float(t.ppf(0.975, len(self.errors) - 1) * np.std(self.errors, ddof=1) / np.sqrt(len(self.errors)))
        return self.mean - half, self.mean + half

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return plain({**vars(self), "mean": self.mean, "interval": self.interval})  # type: ignore[no-any-return]

    def __str__(self) -> str:
        """Return the figures."""
        low, high = self.interval
        folds = ", ".join(f"{error:.4g}" for error in self.errors)
        figures = f"{self.measure} {self.mean:.4g} [{low:.4g}, {high:.4g}] over {len(self.errors)} folds ({folds})"
        return "\n".join([figures, f"on the training folds: {np.mean(self.trained):.4g}", *self.notes])


@plainly
def k_fold(
    model: nn.Module,
    loader: Any,
    loss_fn: Any = None,
    optimizer: Any = None,
    *,
    k: int = 5,
    epochs: int = 20,
    metric: Metric | None = None,
    reset: Callable[[nn.Module], Any] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Folds:
    """Train a copy k times on all folds but one and judge it on that one.

    Each copy starts afresh: every layer's `reset_parameters`, or `reset(model)` where you pass it. The loader's data
    set is read by index and collated as the loader does.

    Args:
        model: Your model.
        loader: The DataLoader, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred.
        optimizer: Your optimizer; Adam by default.
        k: The number of folds.
        epochs: The epochs of each training.
        metric: `metric(output, target)` for each sample; by default the error rate or the squared error.
        reset: `reset(model)`: how a copy is initialized anew; `reset_parameters` of every layer by default.
        seed: The seed of the experiments.
        progress: Whether a progress bar is shown.
    """
    setup = Setup(model, loader, loss_fn, optimizer)
    total = setup.feed.total
    if setup.feed.dataset is None or not total or setup.feed.gives_whole_batches:
        raise BadInput(
            "this loader does not index its samples",
            where="k_fold",
            expected="a DataLoader over a dataset with __len__ and __getitem__",
            do="pass DataLoader(dataset, batch_size)",
        )
    if not isinstance(k, int) or not 2 <= k <= total:
        raise BadInput(f"k is {k!r}", where="k_fold", expected=f"an integer from 2 to {total}", do="k=5")
    live = setup.live_parts()
    with control_shown(progress, f"training on {k} folds") as control:
        run = _Run(setup, control, epochs, metric, reset, k)
        return guarded(run.all_folds, live, control, seed=seed, snapshot=StateSnapshot(*live))


@dataclass
class _Run:
    setup: Setup
    control: Control
    epochs: int
    metric: Metric | None
    reset: Callable[[nn.Module], Any] | None
    k: int

    def all_folds(self) -> Folds:
        total = self.setup.feed.total
        assert total
        folds = [part.tolist() for part in torch.randperm(total).tensor_split(self.k)]
        errors, trained, notes = [], [], []
        measure = ""
        for number, held in enumerate(folds):
            sandbox = make_sandbox(self.setup, self.control)
            notes = _restarted(sandbox.model, self.reset)
            kept = [index for other, fold in enumerate(folds) if other != number for index in fold]
            self._train(sandbox, kept, number)
            measure, error = self._error(sandbox, held)
            errors.append(error)
            trained.append(self._error(sandbox, kept)[1])
        return Folds(measure, tuple(errors), tuple(trained), self.epochs, tuple(notes))

    def _batches(self, indices: list[int]) -> Any:
        size = self.setup.feed.loader.batch_size or 32
        feed = self.setup.feed
        for start in range(0, len(indices), size):
            yield self.setup.wrap(feed.collate([feed.dataset[i] for i in indices[start : start + size]]))

    def _train(self, sandbox: Sandbox, kept: list[int], number: int) -> None:
        sandbox.ready_to_train()
        for epoch in range(self.epochs):
            order = torch.randperm(len(kept)).tolist()
            for batch in self._batches([kept[i] for i in order]):
                if batch.size < 2:
                    continue  # a rest of one sample has no batch statistics
                sandbox.plain_step(batch.to(sandbox.device))
                done = (number + (epoch + 1) / self.epochs) / self.k
                self.control.progress(done, f"fold {number + 1} of {self.k}")

    @torch.no_grad()
    def _error(self, sandbox: Sandbox, indices: list[int]) -> tuple[str, float]:
        sandbox.model.eval()
        parts = [judged(sandbox, batch.to(sandbox.device), self.metric) for batch in self._batches(indices)]
        if not parts:
            raise NotApplicable("a fold is empty")
        return parts[0].measure, float(torch.cat([part.errors for part in parts]).double().mean())


def _restarted(model: nn.Module, reset: Callable[[nn.Module], Any] | None) -> list[str]:
    """Return the copy fresh weights; say which parts could not be."""
    if reset is not None:
        reset(model)
        return []
    left = []
    for name, module in model.named_modules():
        again = getattr(module, "reset_parameters", None)
        if callable(again):
            again()
        elif any(True for _ in module.parameters(recurse=False)):
            left.append(name or type(module).__name__)
    if not left:
        return []
    return [f"These modules have no reset_parameters and kept their weights: {', '.join(left[:5])}; pass reset=."]
