"""`nbdebug.show_gradients`: the norm of every gradient beside its weight and its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdebug.charts import Bars
from nbdebug.charts.draw import as_png
from nbdebug.errors import NotApplicable, plainly
from nbdebug.evidence.parameter_histograms import ParameterLook, ParameterLooks
from nbdebug.evidence.recording import Recording
from nbdebug.views import page
from nbdebug.views.activations import histogram_data
from nbdebug.views.asking import gathered, recorded
from nbdebug.views.view import View

__all__ = ["GradientView", "show_gradients"]

# Karpathy, "makemore": about 1e-3 of the weight in a step; a decade to either side is usual.
BAND = (1e-4, 1e-2)
COLUMNS = ("parameter", "shape", "gradient", "weight", "update / weight")


@plainly
def show_gradients(
    model: Any,
    loader: Any = None,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    compute_loss: Callable[..., Any] | None = None,
    train_step: Callable[..., Any] | None = None,
) -> GradientView:
    """Show the norm of each parameter's gradient beside its own norm and the change that one step makes.

    One batch runs forward and back through a copy of the model, and the copy takes one step with a copy of your
    optimizer (Adam where there is none). In place of a model, what `nbdebug.watch` recorded can be passed.

    Args:
        model: Your model, or what `nbdebug.watch` recorded.
        loader: The DataLoader, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred.
        optimizer: Your optimizer; Adam by default.
        compute_loss: `compute_loss(model, batch, loss_fn) -> loss`: how a batch that is not a pair is used.
        train_step: `train_step(model, batch, loss_fn, optimizer) -> loss`: the body of your training loop.
    """
    run = recorded(model)
    if run is not None:
        return GradientView(_from_recording(run), f"step {run.tally.steps} of {run.model}, {run.optimizer}")
    options = {"compute_loss": compute_loss, "train_step": train_step}
    looks = gathered(ParameterLooks, model, loader, loss_fn, optimizer, **options)
    said = f"one batch of {looks.samples} samples, loss {looks.loss:.4g}, one step of {looks.optimizer}"
    return GradientView(looks, said)


class GradientView(View):
    """Bars for every parameter; `looks` holds the numbers."""

    name = "gradients"

    def __init__(self, looks: ParameterLooks, says: str, *, is_beside: bool = False) -> None:
        super().__init__()
        self._is_beside = is_beside  # something beside it shows the one that is selected
        self.looks, self._says = looks, says

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws."""
        return {
            "says": self._says,
            "beside": self._is_beside,
            "band": list(BAND),
            "parameters": [_parameter(look) for look in self.looks.parameters],
        }

    @property
    def html(self) -> str:
        """The static page."""
        table = page.table(COLUMNS, self._rows()[:80])
        pictures = [page.drawn(bars, bars.title, 560) for bars in self._bars()]
        return page.page(f"Gradients: {self._says}", *pictures, table)

    @property
    def png(self) -> bytes:
        """The static picture."""
        return as_png(self._bars()[0])

    def __repr__(self) -> str:
        """Say in one line what it is."""
        return f"<nbdebug gradients: {self._says}>"

    def __str__(self) -> str:
        """Return the norms as text."""
        return f"Gradients: {self._says}\n{page.aligned(COLUMNS, self._rows())}"

    def _bars(self) -> tuple[Bars, Bars]:
        moved = [look for look in self.looks.parameters if look.gradient is not None]
        names = tuple(look.name for look in moved)
        norms = Bars(names, tuple(look.gradient or 0.0 for look in moved), "Gradient norm", log=True)
        known = [look for look in moved if look.update is not None and len(look.shape) > 1]
        ratios = tuple(look.update or 0.0 for look in known)
        title = "Update/weight ratio per step"
        return norms, Bars(tuple(look.name for look in known), ratios, title, log=True, band=BAND)

    def _rows(self) -> list[tuple[Any, ...]]:
        def shown(value: float | None) -> str:
            return "none" if value is None else f"{value:.3g}"

        return [
            (look.name, "×".join(map(str, look.shape)), shown(look.gradient), shown(look.weight), shown(look.update))
            for look in self.looks.parameters
        ]


def _parameter(look: ParameterLook) -> dict[str, Any]:
    return {
        "name": look.name,
        "shape": " × ".join(map(str, look.shape)),
        "matrix": len(look.shape) > 1,
        "trained": look.trained,
        "weight": page.number(look.weight, 3),
        "gradient": page.number(look.gradient, 3),
        "update": page.number(look.update, 3),
        "weights": histogram_data(look.weights),
        "gradients": histogram_data(look.gradients),
    }


def _from_recording(run: Recording) -> ParameterLooks:
    if not run.parameters:
        raise NotApplicable("no parameters were recorded; run at least one training step under nbdebug.watch")

    def last(value: float) -> float | None:
        return None if value != value else value

    looks = tuple(
        ParameterLook(
            p.name,
            p.shape,
            True,
            p.weight.last,
            last(p.gradient.last),
            last(p.update.last),
            None,
            None,
        )
        for p in run.parameters.values()
    )
    loss = run.scalars["loss"].last if "loss" in run.scalars else float("nan")
    return ParameterLooks(looks, loss, run.optimizer, 0)
