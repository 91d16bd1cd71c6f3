"""Batch normalisation that cannot do its work."""

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
    momentum: float = 0.9,  # PyTorch's momentum is the weight of the new batch; 0.99 means the opposite in Keras
    far: float = 1.0,  # standard deviations between the statistics kept and those of the batch
) -> Iterator[Finding]:
    """Batch normalisation gets batches of one, never updates its statistics, or forgets them at once.

    Why it matters: in training it divides by the spread of the batch, in use by the running statistics. With one sample
    there is no spread; with momentum 0 the statistics stay at 0 and 1; with a momentum near 1 they are those of the
    last batch. Training then looks fine and evaluation does not, or one odd batch ends an epoch with an error.

    What to try: use batches of at least eight, drop an incomplete last one, keep momentum at 0.1, or use GroupNorm or
    LayerNorm, which need no batch.
    """
    yield from _small_batches(norms)
    active = [layer for layer in norms.layers if layer.tracks and layer.values]
    stuck = [
        layer for layer in active if not layer.moves and layer.default and (layer.training or norms.handed_training)
    ]
    if stuck:
        says = "never updates its statistics: a pass in training mode leaves them at 0 and 1"
        yield _finding(stuck, says, "bug", "momentum", stuck[0].momentum, 0.0, MOMENTUM)
    hasty = [
        layer for layer in active if layer.momentum is not None and momentum <= layer.momentum <= 1 and layer.moves
    ]
    if hasty:
        says = f"has momentum {hasty[0].momentum:g}, so that its statistics are almost those of the last batch alone"
        yield _finding(hasty, says, "suspect", "momentum", hasty[0].momentum, momentum, MOMENTUM)
    frozen = [
        layer for layer in active if norms.handed_training and not layer.training and layer.default and layer.moves
    ]
    if frozen and max(layer.off for layer in frozen) > far:
        says = "is in eval mode with statistics that are still 0 and 1, so that it normalises nothing"
        yield _finding(frozen, says, "suspect", "distance", max(layer.off for layer in frozen), far)


def _small_batches(norms: Norms) -> Iterator[Finding]:
    training = [layer for layer in norms.layers if (layer.training or not norms.handed_training) and layer.values]
    if not training:
        return
    if norms.batch_size == 1 and "Instance" not in training[0].module:
        says = "normalises over batches of one sample"
        yield _finding(training, says, "bug" if training[0].values <= 1 else "suspect", "batch size", 1, 2)
    elif norms.last_batch == 1 and norms.single_fails:
        says = f"gets a single sample in the last batch of each epoch, which fails ({norms.single_fails})"
        yield _finding(training, says, "bug", "last batch", 1, 2, LAST_BATCH)
    elif norms.batch_size < 4 and min(layer.values for layer in training) < 4:
        says = f"normalises over only {min(layer.values for layer in training)} values"
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
        f"{layers[0].path} ({layers[0].module}){more} {says}.",
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
                "Drop an incomplete last batch.",
                "DataLoader(…, drop_last=True)",
                Patch(LAST_BATCH) if patch == LAST_BATCH else None,
            ),
            Remedy(
                "Let statistics move by a tenth a batch.",
                "nn.BatchNorm2d(channels, momentum=0.1)",
                Patch(MOMENTUM) if patch == MOMENTUM else None,
            ),
            Remedy("Normalise without the batch.", "nn.GroupNorm(8, channels)", Patch("group-norm")),
        ),
    )
