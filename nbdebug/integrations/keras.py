"""Watch a training of Keras 3 on torch: `model.fit(..., callbacks=[WatchCallback()])`."""

from __future__ import annotations

from typing import Any

import keras

from nbdebug.errors import BadInput
from nbdebug.integrations.watching import Watching

__all__ = ["WatchCallback"]


class WatchCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Records a `fit` of a model that is built; `callback.live` is the run, with `findings` and `report()`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        if keras.backend.backend() != "torch":
            raise BadInput(
                f"Keras runs on {keras.backend.backend()}",
                where="nbdebug.integrations.keras",
                expected="Keras 3 on torch",
                do='set os.environ["KERAS_BACKEND"] = "torch" before keras is imported',
            )
        self.watching = Watching(**options)

    @property
    def live(self) -> Any:
        """The run that is being recorded, or was recorded last."""
        return self.watching.live

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin."""
        self.watching.begin_with(self.model, self.model.optimizer, "apply")

    def on_train_end(self, logs: Any = None) -> None:
        """End."""
        self.watching.end()
