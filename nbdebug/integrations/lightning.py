"""Watch a training of Lightning: `Trainer(callbacks=[WatchCallback()])`."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the older name of the same library
    from pytorch_lightning.callbacks import Callback

from nbdebug.integrations.watching import Watching

__all__ = ["WatchCallback"]


class WatchCallback(Callback):
    """Records the fit of a LightningModule; `callback.live` is the run, with `findings` and `report()`."""

    def __init__(self, **options: Any) -> None:
        self.watching = Watching(**options)

    @property
    def live(self) -> Any:
        """The run that is being recorded, or was recorded last."""
        return self.watching.live

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin."""
        self.watching.begin(pl_module, is_called=False)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """See to it that the recorder runs, also after a validation that ended it."""
        if self.live is not None and not self.live.is_running:
            self.watching.begin(pl_module, is_called=False)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """End."""
        self.watching.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End, and leave no hook behind."""
        self.watching.end()
