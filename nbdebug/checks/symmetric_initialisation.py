"""Units that begin as copies of each other."""

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
    distinct: float = 0.5,  # share of different units below which a layer is a narrower one in disguise
) -> Iterator[Finding]:
    """The units of a layer start as copies of each other, so that they compute and learn the same.

    nbdebug looks for layers whose rows of weights are equal and takes a few plain steps. Layers that start at zero on
    purpose (a last layer, the end of a residual branch, an adapter) come apart at once; these do not.

    Why it matters: units with equal weights get equal gradients and stay equal for ever. However wide the layer is, it
    works as if it had one unit.

    What to try: draw weights at random (nn.init.kaiming_normal_, nn.init.xavier_uniform_); only biases, and layers
    behind which something random follows, may start at zero or at a constant.
    """
    heads = {w.path for w in weights.weights if w.is_head} if weights is not None else set()
    stuck = [
        layer
        for layer in symmetry.layers
        if layer.distinct_after <= max(1, distinct * layer.units)
        and layer.distinct_after <= max(2, 1.5 * layer.distinct_before)  # on their way apart, however slowly, is well
    ]
    if stuck:
        yield _finding(stuck, "bug", f"and after {symmetry.steps} steps still only {stuck[0].distinct_after}")
        return
    slow = [la for la in symmetry.layers if not la.is_zero and la.distinct_before == 1 and la.path not in heads]
    if slow and slow[0].units >= 4:
        yield _finding(slow, "suspect", f"though {symmetry.steps} steps tell {slow[0].distinct_after} apart")


def _finding(layers: list[SymmetricLayer], severity: str, then: str) -> Finding:
    first = layers[0]
    what = "are all zero" if first.is_zero else "are copies of each other"
    others = f" The same holds for {len(layers) - 1} more layers." if len(layers) > 1 else ""
    return Finding(
        f"The weights of the {first.units} units of {first.path} {what}: only {first.distinct_before} of them is "
        f"different, {then}.{others}",
        where=first.path,
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "units": {f"{la.path}.{la.name}": la.units for la in layers},
            "different at the start": {f"{la.path}.{la.name}": la.distinct_before for la in layers},
            "different after the steps": {f"{la.path}.{la.name}": la.distinct_after for la in layers},
            "threshold": "units come apart within a few steps",
            "source": "37 reasons, 28: symmetric units stay symmetric",
        },
        remedies=(
            Remedy(
                "Draw the weights at random.",
                f"nn.init.kaiming_normal_({in_code(first.path)}.{first.name})",
                Patch("reinitialise", {"paths": [layer.path for layer in layers]}),
            ),
        ),
        exhibit=Bars(("units", "different"), (float(first.units), float(first.distinct_after)), title=first.path),
    )
