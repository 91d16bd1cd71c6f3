"""The loss does not depend on the targets."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.target_influence import TargetInfluence

__all__ = ["loss_ignores_targets"]


def _wants_something_else(targets: TargetInfluence) -> bool:
    return targets.wants_one_answer or targets.wants_own_class


@check(explains=("labels-unrelated-to-inputs", "model-ignores-inputs", "worse-than-baseline"))
def loss_ignores_targets(
    targets: TargetInfluence,
    *,
    influence: float = 1e-7,  # float32 rounding error; a target that is used changes the loss far more
) -> Iterator[Finding]:
    """The loss does not depend on the targets.

    nbdebug swaps the targets between samples and replaces them with other values, keeps the outputs fixed, and compares
    the losses.

    Why it matters: the model cannot learn what the loss does not measure. The loss may still fall: toward a constant,
    or toward whatever the outputs are compared with instead of the targets.

    What to try: check which tensor is passed to the loss as the target. If the task needs no labels (an autoencoder, a
    contrastive loss), leave them out of the batch.
    """
    ignored = [use for use in targets.uses if use.influence <= influence]
    for use in ignored:
        severity: Severity = "note"
        if use.fits_output and len(ignored) == len(targets.uses):
            severity = "bug" if targets.place == "loss_fn" else "suspect" if _wants_something_else(targets) else "note"
        same = " It rewards predicting the same class for every sample." if targets.wants_one_answer else ""
        same = " It rewards the class that is already predicted." if targets.wants_own_class else same
        yield Finding(
            f"The loss ignores the target `{use.name}` of shape {use.shape}: replacing its values changes the loss by "
            f"{use.influence:.1g}.{same}",
            where=targets.place,
            severity=severity,
            evidence={
                "change of the loss": use.influence,
                "threshold": influence,
                "source": "37 reasons, 18: check your loss function",
            },
            remedies=(
                Remedy(
                    "Pass the target of the batch to the loss.",
                    "loss = loss_fn(output, target)",
                    Patch("replace-loss", {"loss": "usual"}),
                ),
            ),
        )
