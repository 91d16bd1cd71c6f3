"""`nbdebug.show_layers`: every module with its shapes, parameters, time, memory and health."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nbdebug.charts import Bars
from nbdebug.charts.draw import as_png
from nbdebug.core.finding import Finding
from nbdebug.engine.session import Session
from nbdebug.errors import plainly
from nbdebug.evidence.layer_costs import LayerCost, LayerCosts
from nbdebug.report.progress import progress_bar
from nbdebug.setup import Setup
from nbdebug.setup.object_graph import human_bytes
from nbdebug.views import page
from nbdebug.views.view import View

__all__ = ["Health", "LayerView", "show_layers"]

# What can be said about one layer; everything else that is wrong has no place in a table of layers.
CHECKS = (
    "non-finite-forward",
    "non-finite-backward",
    "frozen-parameters",
    "untrained-parameters",
    "initialization-off-scale",
    "symmetric-initialization",
    "dead-units",
    "saturated-units",
    "activations-off-scale",
    "vanishing-gradients",
    "exploding-gradients",
    "missing-nonlinearity",
    "batchnorm-misused",
)
COLUMNS = ("layer", "module", "output", "parameters", "time", "memory", "health")


@dataclass(frozen=True)
class Health:
    """What was found at one layer: the gravest severity, and each finding in a sentence."""

    severity: str = ""
    says: tuple[str, ...] = ()


@plainly
def show_layers(
    model: Any,
    loader: Any,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    compute_loss: Callable[..., Any] | None = None,
    checks: bool = True,
    progress: bool = True,
) -> LayerView:
    """Show every module of a model: shapes, parameters, time, memory, and what is wrong with it.

    Everything is measured on a copy with one batch. The colors come from the checks that look at single layers;
    `checks=False` leaves them out, which is quicker.

    Args:
        model: Your model.
        loader: The DataLoader, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred.
        optimizer: Your optimizer; Adam by default.
        compute_loss: `compute_loss(model, batch, loss_fn) -> loss`: how a batch that is not a pair is used.
        checks: Whether the checks that look at single layers run.
        progress: Whether a progress bar is shown.
    """
    session = Session(Setup(model, loader, loss_fn, optimizer, compute_loss=compute_loss))
    costs = session.gather(LayerCosts)
    todo = list(CHECKS) if checks else []
    with progress_bar(session, todo, shown=progress):
        session.run(todo)
    return LayerView(costs, session.journal.findings, checked=checks)


class LayerView(View):
    """The table of layers; `costs` holds the numbers and `health` what was found, by the path of the module."""

    name = "layers"

    def __init__(self, costs: LayerCosts, findings: Iterable[Finding], *, checked: bool) -> None:
        super().__init__()
        self.costs, self.checked = costs, checked
        self.health = _placed(costs, list(findings))

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws."""
        return {"says": self._says, "layers": [self._layer(layer) for layer in self.costs.layers]}

    @property
    def html(self) -> str:
        """The static page."""
        found = [f"{path}: {said}" for path, health in self.health.items() for said in health.says]
        return page.page(f"Layers: {self._says}", page.table(COLUMNS, self._rows()[:120]), page.lines(found))

    @property
    def png(self) -> bytes:
        """The static picture: where the time goes."""
        leaves = [layer for layer in self.costs.layers if layer.is_leaf and layer.calls]
        times = tuple(1000 * layer.seconds for layer in leaves)
        return as_png(Bars(tuple(layer.path for layer in leaves), times, "Milliseconds per layer"))

    def __repr__(self) -> str:
        """Say in one line what it is."""
        return f"<nbdebug layers: {self._says}>"

    def __str__(self) -> str:
        """Return the table as text."""
        return f"Layers: {self._says}\n{page.aligned(COLUMNS, self._rows())}"

    @property
    def _says(self) -> str:
        root = self.costs.layers[0]
        mode = "training" if self.costs.training else "eval"
        ill = sum(health.severity in ("bug", "suspect") for health in self.health.values())
        found = f", findings at {ill} of them" if self.checked else ""
        return (
            f"{root.module} with {len(self.costs.layers) - 1} modules and {root.parameters:,} parameters on "
            f"{self.costs.device}; one batch of {self.costs.samples} samples in {mode} mode{found}"
        )

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                "  " * layer.depth + layer.path.rpartition(".")[2],
                layer.module,
                "×".join(map(str, layer.output)) if layer.calls else "not called",
                layer.parameters,
                f"{1000 * layer.seconds:.2f} ms" if layer.calls else "",
                human_bytes(layer.output_bytes) if layer.calls else "",
                self.health.get(layer.path, Health()).severity,
            )
            for layer in self.costs.layers
        ]

    def _layer(self, layer: LayerCost) -> dict[str, Any]:
        health = self.health.get(layer.path, Health())
        return {
            "path": layer.path,
            "name": layer.path.rpartition(".")[2],
            "module": layer.module,
            "depth": layer.depth,
            "leaf": layer.is_leaf,
            "inputs": [" × ".join(map(str, shape)) for shape in layer.inputs],
            "output": " × ".join(map(str, layer.output)),
            "parameters": layer.parameters,
            "trainable": layer.trainable,
            "ms": page.number(1000 * layer.seconds, 3),
            "flops": layer.flops,
            "bytes": layer.output_bytes,
            "weights": layer.parameter_bytes,
            "calls": layer.calls,
            "order": layer.order,
            "sources": list(layer.sources),
            "severity": health.severity,
            "findings": list(health.says),
        }


def _placed(costs: LayerCosts, findings: list[Finding]) -> dict[str, Health]:
    """Put each finding at the innermost module that its place names."""
    paths = {layer.path for layer in costs.layers}
    grave = {"bug": 0, "suspect": 1, "note": 2}
    placed: dict[str, list[Finding]] = {}
    for finding in findings:
        steps = finding.where.split(".")
        owners = [".".join(steps[:end]) for end in range(len(steps), 0, -1)]
        placed.setdefault(next((path for path in owners if path in paths), "model"), []).append(finding)
    return {
        path: Health(
            min((f.severity for f in found), key=grave.__getitem__),
            tuple(f"{f.check}: {f.says}".replace("`", "") for f in found),
        )
        for path, found in placed.items()
    }
