"""What a short training shows that is compared with another one."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.evidence.learning import Fit

__all__ = ["Practice"]


@dataclass(frozen=True)
class Practice:
    """A short training as the user would do it: with their step, their optimizer, and batches in the loader's order.

    `before` and `after` are the losses of the same batches at the beginning and in the end, one for each. The fits
    and `balanced` (the mean over the classes of the share of right answers) are those of `samples` samples that were
    drawn at random over the whole data set; they do not depend on the scale of the loss.
    """

    losses: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    fit_before: Fit | None
    fit_after: Fit | None
    balanced: float | None
    samples: int

    @property
    def first(self) -> float:
        """The mean loss of the batches before the training."""
        return sum(self.before) / len(self.before)

    @property
    def last(self) -> float:
        """The mean loss of the same batches after it."""
        return sum(self.after) / len(self.after)
