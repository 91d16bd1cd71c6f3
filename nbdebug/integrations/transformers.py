"""Watch a training of Hugging Face: `Trainer(..., callbacks=[WatchCallback()])`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from nbdebug.integrations.watching import Watching

__all__ = ["WatchCallback"]


class WatchCallback(TrainerCallback):
    """Records the training of a Trainer; `callback.live` is the run, with `findings` and `report()`."""

    def __init__(self, **options: Any) -> None:
        self.watching = Watching(**options)

    @property
    def live(self) -> Any:
        """The run that is being recorded, or was recorded last."""
        return self.watching.live

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin."""
        self.watching.begin(kwargs["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End."""
        self.watching.end()
