"""Watch a training of fastai: `Learner(..., cbs=[WatchCallback()])`."""

from __future__ import annotations

from typing import Any

from fastai.callback.core import Callback

from nbdebug.integrations.watching import Watching

__all__ = ["WatchCallback"]


class WatchCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Records the fit of a Learner; `callback.live` is the run, with `findings` and `report()`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.watching = Watching(**options)

    @property
    def live(self) -> Any:
        """The run that is being recorded, or was recorded last."""
        return self.watching.live

    def before_fit(self) -> None:
        """Begin."""
        self.watching.begin_with(self.learn.model, self.learn.opt, "step")

    def after_fit(self) -> None:
        """End."""
        self.watching.end()

    def after_cancel_fit(self) -> None:
        """End, and leave no hook behind."""
        self.watching.end()
