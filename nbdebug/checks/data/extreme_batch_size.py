"""Batches of one sample, or of the whole dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.core.torch_compat import BatchNorm
from nbdebug.evidence.epoch_order import EpochOrder
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.experiments.kept_state import from_one_state
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import user_code

__all__ = ["LoneSample", "extreme_batch_size", "lone_sample"]


@dataclass(frozen=True)
class LoneSample:
    """What the model does in training mode with one sample, and with two.

    `normalizer` is the first module that normalizes over the batch.
    """

    fails: str = ""
    runs_on_two: bool = True
    normalizer: str = ""


@probe
def lone_sample(sandbox: Sandbox) -> LoneSample:
    """Run the model in train mode on one sample, and on two."""
    sandbox.ready_to_train()
    batch = sandbox.batch()
    norms = [
        path for path, module in sandbox.model.named_modules() if isinstance(module, BatchNorm) and module.training
    ]
    one = _error(sandbox, batch.head(1))
    two = _error(sandbox, batch.head(2)) if batch.size > 1 else ""
    return LoneSample(one, not two, norms[0] if norms else "")


def _error(sandbox: Sandbox, batch: Batch) -> str:
    with user_code() as tried, from_one_state(sandbox.model):
        sandbox.run(batch)
    return tried.failure


@check(basis="statistic", explains=("forward-fails", "batchnorm-misused", "cannot-overfit-batch", "train-eval-gap"))
def extreme_batch_size(
    sweep: LoaderSweep,
    lone: LoneSample,
    order: EpochOrder | None,
    *,
    share: float = 0.5,  # of the dataset in one batch; our choice
    least: int = 64,  # samples; a smaller dataset may fit into one batch; our choice
) -> Iterator[Finding]:
    """Batches contain a single sample, or most of the dataset.

    nbdebug checks the batch sizes that the loader yields, including the last one, and runs the model in training mode
    on a single sample.

    Why it matters: BatchNorm over one sample subtracts the sample from itself; in layers without spatial dimensions
    PyTorch raises an error, perhaps at the end of the first epoch, when the last batch has one sample. Very large
    batches give few steps per epoch, and tend to generalize worse.

    What to try: batches of 8 to 256; `drop_last=True` in training with BatchNorm; GroupNorm or LayerNorm where batches
    have to be small.
    """
    sweep.require()
    size = max(sweep.ordered.sizes)
    if size == 1 and (lone.normalizer or lone.fails):
        says = f"The batch size is 1, and `{lone.normalizer or 'model'}` normalizes over the batch"
        tail = f": {lone.fails}" if lone.fails else ""
        yield _finding(f"{says}{tail}.", lone.normalizer or "loader", "bug" if lone.fails else "suspect", size, sweep)
    elif size == 1:
        yield _finding("The batch size is 1.", "loader", "note", size, sweep)
    elif _last_is_alone(sweep, order) and lone.fails and lone.runs_on_two:
        yield _finding(
            f"The last batch of an epoch has one sample, and the model fails on it: {lone.fails}.",
            lone.normalizer or "loader",
            "bug",
            1,
            sweep,
        )
    if sweep.total is not None and sweep.total >= least and size > share * sweep.total:
        yield _finding(
            f"One batch contains {size} of {sweep.total} samples (steps per epoch: {-(-sweep.total // size)}).",
            "loader", "note", size, sweep,
        )  # fmt: skip


def _last_is_alone(sweep: LoaderSweep, order: EpochOrder | None) -> bool:
    if order is not None:
        return order.last_batch == 1 and not order.drop_last
    return sweep.ordered.complete and sweep.ordered.sizes[-1] == 1


def _finding(says: str, where: str, severity: Severity, size: int, sweep: LoaderSweep) -> Finding:
    return Finding(
        says,
        where=where,
        severity=severity,
        is_contradiction=severity == "bug",  # the model fails on such a batch
        evidence={"batch size": size, "samples": sweep.total, "threshold": 1, "source": "37 reasons, 11"},
        remedies=(
            Remedy(
                "Drop the incomplete last batch, or change the batch size.",
                "DataLoader(…, 32, drop_last=True)",
                # The batch size reported is that of the last batch where only that one is too small.
                Patch("drop-last-batch" if max(sweep.ordered.sizes) > 1 else "reload-batches", {"size": 32}),
            ),
        ),
    )
