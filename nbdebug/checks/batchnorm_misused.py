"""BatchNorm layers with unusable statistics."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import NormFacts, Norms
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["batchnorm_misused"]

LAST_BATCH, MOMENTUM = "drop-last-batch", "norm-momentum"  # patches that only fit one kind of misuse


@check(explains=("train-eval-gap", "batch-not-memorised"))
def batchnorm_misused(
    norms: Norms,
    *,
    momentum: float = 0.9,  # in PyTorch the weight of the new batch; Keras uses the opposite convention (0.99)
    far: float = 1.0,  # standard deviations between running and batch statistics
) -> Iterator[Finding]:
    """BatchNorm gets batches of one, never updates its running statistics, or overwrites them every batch.

    nbdebug reads the settings of every layer with running statistics, runs one batch in training mode, and compares the
    running statistics before and after.

    Why it matters: BatchNorm normalizes with batch statistics in training mode and with running statistics in eval
    mode. With one sample the standard deviation is zero; with momentum 0 the running statistics stay at 0 and 1; with a
    momentum near 1 they are those of the last batch. Training then looks fine and evaluation does not, or a single
    small batch stops an epoch with an error.

    What to try: use batches of at least eight samples, drop an incomplete last one, keep momentum at 0.1, or use
    GroupNorm or LayerNorm, which do not depend on the batch.
    """
    yield from _small_batches(norms)
    active = [layer for layer in norms.layers if layer.tracks and layer.values]
    stuck = [
        layer for layer in active if not layer.moves and layer.default and (layer.training or norms.handed_training)
    ]
    if stuck:
        says = "never updates its running statistics: they stay at 0 and 1 in training mode"
        yield _finding(stuck, says, "bug", "momentum", stuck[0].momentum, 0.0, MOMENTUM)
    too_fast = [
        layer for layer in active if layer.momentum is not None and momentum <= layer.momentum <= 1 and layer.moves
    ]
    if too_fast:
        says = (
            f"has momentum {too_fast[0].momentum:g}, so its running statistics are almost those of the last batch alone"
        )
        yield _finding(too_fast, says, "suspect", "momentum", too_fast[0].momentum, momentum, MOMENTUM)
    frozen = [
        layer for layer in active if norms.handed_training and not layer.training and layer.default and layer.moves
    ]
    if frozen and max(layer.off for layer in frozen) > far:
        says = "is in eval mode with its initial running statistics (0 and 1), so it does not normalize"
        yield _finding(frozen, says, "suspect", "distance", max(layer.off for layer in frozen), far)


def _small_batches(norms: Norms) -> Iterator[Finding]:
    training = [layer for layer in norms.layers if (layer.training or not norms.handed_training) and layer.values]
    if not training:
        return
    if norms.batch_size == 1 and "Instance" not in training[0].module:
        says = "normalizes over a batch of one sample"
        yield _finding(training, says, "bug" if training[0].values <= 1 else "suspect", "batch size", 1, 2)
    elif norms.last_batch == 1 and norms.single_fails:
        says = f"gets a single sample in the last batch of every epoch and fails ({norms.single_fails})"
        yield _finding(training, says, "bug", "last batch", 1, 2, LAST_BATCH)
    elif norms.batch_size < 4 and min(layer.values for layer in training) < 4:
        says = f"normalizes over only {min(layer.values for layer in training)} values per channel"
        yield _finding(training, says, "note", "values", min(layer.values for layer in training), 4)


def _finding(
    layers: list[NormFacts],
    says: str,
    severity: Severity,
    what: str,
    value: float | None,
    limit: float,
    patch: str = "",
) -> Finding:
    more = f" (and {len(layers) - 1} more)" if len(layers) > 1 else ""
    return Finding(
        f"`{layers[0].path}` ({layers[0].module}){more} {says}.",
        where=layers[0].path,
        severity=severity,
        evidence={
            what: value,
            "layers": [layer.path for layer in layers[:20]],
            "threshold": limit,
            "source": "Ioffe and Szegedy (2015); the documentation of torch.nn.BatchNorm",
        },
        remedies=(
            Remedy(
                "Drop the incomplete last batch.",
                "DataLoader(…, drop_last=True)",
                Patch(LAST_BATCH) if patch == LAST_BATCH else None,
            ),
            Remedy(
                "Set the momentum to 0.1.",
                "nn.BatchNorm2d(channels, momentum=0.1)",
                Patch(MOMENTUM) if patch == MOMENTUM else None,
            ),
            Remedy("Replace BatchNorm with GroupNorm.", "nn.GroupNorm(8, channels)", Patch("group-norm")),
        ),
    )
