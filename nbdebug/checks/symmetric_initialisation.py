"""Units of a layer start with identical weights."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import InitialWeights, StepSymmetry, SymmetricLayer
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, in_code
from nbdebug.registry import check

__all__ = ["symmetric_initialisation"]


@check(
    explains=(
        "batch-not-memorised",
        "untrained-parameters",
        "initial-loss-off",
        "outputs-identical",
        "bottleneck-too-narrow",
        "vanishing-gradients",
        "activations-off-scale",
        "initialisation-off-scale",
    )
)
def symmetric_initialisation(
    symmetry: StepSymmetry,
    weights: InitialWeights | None,
    *,
    distinct: float = 0.5,  # fraction of distinct units below which a layer is effectively narrower
) -> Iterator[Finding]:
    """The units of a layer start with identical weights, so they compute and learn the same.

    nbdebug looks for layers whose weight rows are identical and takes a few SGD steps. Layers that are zero-initialized
    on purpose (a last layer, the end of a residual branch, an adapter) become distinct at once; these do not.

    Why it matters: units with identical weights get identical gradients and stay identical. However wide the layer is,
    it acts as a single unit.

    What to try: initialize weights randomly (`nn.init.kaiming_normal_`, `nn.init.xavier_uniform_`); only biases, and
    layers followed by a randomly initialized one, may start at zero or at a constant.
    """
    heads = {w.path for w in weights.weights if w.is_head} if weights is not None else set()
    stuck = [
        layer
        for layer in symmetry.layers
        if layer.distinct_after <= max(1, distinct * layer.units)
        and layer.distinct_after
        <= max(2, 1.5 * layer.distinct_before)  # units that become distinct, however slowly, are fine
    ]
    if stuck:
        yield _finding(stuck, "bug", f"still {stuck[0].distinct_after} after {symmetry.steps} steps")
        return
    slow = [la for la in symmetry.layers if not la.is_zero and la.distinct_before == 1 and la.path not in heads]
    if slow and slow[0].units >= 4:
        yield _finding(slow, "suspect", f"{slow[0].distinct_after} after {symmetry.steps} steps")


def _finding(layers: list[SymmetricLayer], severity: str, then: str) -> Finding:
    first = layers[0]
    what = "start with all-zero weights" if first.is_zero else "start with identical weights"
    others = f" So do {len(layers) - 1} more layer{'s' * (len(layers) > 2)}." if len(layers) > 1 else ""
    return Finding(
        f"The {first.units} units of `{first.path}` {what} ({first.distinct_before} distinct at initialization, "
        f"{then}).{others}",
        where=first.path,
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "units": {f"{la.path}.{la.name}": la.units for la in layers},
            "different at the start": {f"{la.path}.{la.name}": la.distinct_before for la in layers},
            "different after the steps": {f"{la.path}.{la.name}": la.distinct_after for la in layers},
            "threshold": "units become distinct within a few steps",
            "source": "37 reasons, 28: symmetric units stay symmetric",
        },
        remedies=(
            Remedy(
                "Initialize the weights randomly.",
                f"nn.init.kaiming_normal_({in_code(first.path)}.{first.name})",
                Patch("reinitialise", {"paths": [layer.path for layer in layers]}),
            ),
        ),
        exhibit=Bars(("units", "distinct"), (float(first.units), float(first.distinct_after)), title=first.path),
    )
