"""What the callbacks of all libraries share: one watch, begun and ended with the training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nbdebug.watch import Live, watch

__all__ = ["Pacemaker", "Watching"]


class Pacemaker(torch.optim.Optimizer):
    """Stands for an optimizer that is not torch's, so that its steps can be seen: its step is the other's."""

    def __init__(self, parameters: Any, act: Callable[..., Any]) -> None:
        super().__init__(list(parameters), {"lr": float("nan")})
        self.act = act

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Let the other optimizer step."""
        return self.act(*args, **kwargs)


class Watching:
    """Holds the run that a callback records; `live` is None until the training begins.

    What is passed goes on to `nbdebug.watch`: `every`, `budget`, `layers`, `show`.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.live: Live | None = None
        self._replaced: tuple[Any, str] | None = None

    def begin(self, model: Any, *, is_called: bool = True) -> None:
        """Begin to record, or go on with the run of the same model, which the library may call by other methods."""
        if self.live is None or model not in self.live.roots:
            self.live = watch(model, **self.options)
            if not is_called:
                self.live.look_inside()
        self.live.start()

    def begin_with(self, model: Any, optimizer: Any, method: str) -> None:
        """Begin to record the steps of an optimizer that is not torch's, which it takes by this method."""
        pacemaker = Pacemaker(model.parameters(), getattr(optimizer, method))
        setattr(optimizer, method, pacemaker.step)
        self._replaced = (optimizer, method)
        self.live = watch(model, pacemaker, **self.options).start()

    def end(self) -> None:
        """Stop to record, take every hook off, and give the optimizer its own method back."""
        if self._replaced is not None:
            delattr(*self._replaced)
            self._replaced = None
        if self.live is not None:
            self.live.stop()
