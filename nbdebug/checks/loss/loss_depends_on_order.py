"""A loss that depends on the order of the samples in their batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape import Taint, Tape, record
from nbdebug.experiments.tape.ops import Op
from nbdebug.experiments.tape.replay import replayed
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves
from nbdebug.setup.user_code import required_user_code

__all__ = ["ReorderedLoss", "loss_depends_on_order", "reordered_loss"]

_RANKS = ("sort", "argsort", "msort", "topk", "cumsum", "logcumsumexp", "cummax", "cummin")
ROUNDING = 1e-3  # of the outputs' standard deviation, between two orders


@dataclass(frozen=True)
class ReorderedLoss:
    """The main term for one batch, with confident outputs, and for the same samples and outputs in other orders.

    `walked` is the relative change of the program's own loss by another order, if it takes more operations for a larger
    batch, as a loss does that walks from sample to sample; 0 otherwise.
    """

    loss: float
    reordered: tuple[float, ...]
    samples: int
    place: str
    walked: float = 0.0

    @property
    def change(self) -> float:
        """The largest change, relative to the loss."""
        return max((abs(value - self.loss) for value in self.reordered), default=0.0) / max(abs(self.loss), 1e-9)


@probe
def reordered_loss(sandbox: Sandbox, trial: TrialRun | None) -> ReorderedLoss:
    """Compute the loss of one batch with its samples in other orders, in eval mode."""
    if trial is not None:
        require_run(trial)
    batch = sandbox.batch()
    _require_rows(batch)
    orders = (torch.arange(batch.size).flip(0), torch.randperm(batch.size, generator=torch.Generator().manual_seed(0)))
    with required_user_code("the loss of reordered samples fails ({kind})", passing=()), sandbox.mode(training=False):
        tape = record(sandbox, batch, hold_modes=True)
        again = record(sandbox, batch, hold_modes=True, seed=tape.seed + 1)
        others = [record(sandbox, batch.select(order), hold_modes=True) for order in orders]
    if abs(again.main.value - tape.main.value) > ROUNDING * abs(tape.main.value):
        raise NotApplicable("the loss is random in eval mode")
    _require_comparison(tape, batch.size)
    for order, other in zip(orders, others, strict=True):
        _require_same_outputs(tape, other, order, batch.size)
    place = "train_step" if tape.is_step else "compute_loss" if sandbox.compute_loss is not None else "loss_fn"
    losses = [
        _loss(one, order) for one, order in zip((tape, *others), (torch.arange(batch.size), *orders), strict=True)
    ]
    walked = 0.0
    if max(abs(value - losses[0]) for value in losses[1:]) <= ROUNDING * abs(losses[0]):  # by the order alone
        changes = [abs(other.loss - tape.loss) / max(abs(tape.loss), 1e-9) for other in others]
        noise = abs(again.loss - tape.loss) / max(abs(tape.loss), 1e-9)
        walked = max(changes) if max(changes) > 10 * noise and _grows(sandbox, batch, tape) else 0.0
    return ReorderedLoss(losses[0], tuple(losses[1:]), batch.size, place, walked)


def _grows(sandbox: Sandbox, batch: Batch, tape: Tape) -> bool:
    """Whether a batch with a sample less takes fewer operations."""
    with required_user_code("a batch with one sample less fails ({kind})"), sandbox.mode(training=False):
        fewer = record(sandbox, batch.head(batch.size - 1), hold_modes=True)
    return len(fewer.recording.ops) < len(tape.recording.ops)


@torch.no_grad()
def _loss(tape: Tape, order: torch.Tensor) -> float:
    """Return the main term for confident outputs of each sample: those of an untrained model are nearly alike."""
    generator, exchange = torch.Generator().manual_seed(0), {}
    target = tape.target.value.double() if tape.target is not None else torch.zeros(1)
    spread = (
        float(target.std().nan_to_num(0)) if tape.target is not None and tape.target.value.is_floating_point() else 0
    )
    for head in tape.heads:
        drawn = torch.randn(len(order), head.value[0].numel() * head.shape[0] // len(order), generator=generator)
        drawn = drawn * max(3 * float(head.value.double().std().nan_to_num(0)), spread, 1.0)
        exchange[head.number] = drawn[order].reshape(head.shape).to(head.value)
    loss = replayed(tape.recording, exchange, tape.main.number, reads_matter=tape.reads_matter)
    return tape.main.factor * float(loss.sum())


def _require_rows(batch: Batch) -> None:
    tensors = [leaf for _, leaf in leaves(batch.raw) if isinstance(leaf, torch.Tensor)]
    if batch.whole or batch.size < 6 or any(t.dim() == 0 or t.shape[0] != batch.size for t in tensors):
        raise NotApplicable("the samples of the batch cannot be put in another order")


def _require_comparison(tape: Tape, size: int) -> None:
    """Abstain where samples are compared in pairs, or with what is no data."""
    comparison = tape.main.comparison
    target = tape.recording.values[comparison.target] if comparison is not None else None
    computed = Taint.PARAMETER | Taint.FROZEN | Taint.RANDOM | Taint.UNSEEN
    if target is None or not target.taint & Taint.BATCH or target.taint & computed:
        raise NotApplicable("the loss compares the prediction with no target of the batch")
    if 2 * tape.prediction.shape[0] <= size:
        raise NotApplicable("the loss compares pairs or groups of samples")
    if any(op.name in _RANKS and not _is_of_model(tape, op) for op in tape.recording.ops):
        raise NotApplicable("the loss ranks the samples, and ties depend on the order")


def _is_of_model(tape: Tape, op: Op) -> bool:
    """Whether an op orders what the model computes, and is not behind its heads, where the loss does."""
    computed = any(tape.recording.values[n].taint & Taint.PARAMETER for n in op.inputs)
    return computed and op.index not in tape.main.zone


def _require_same_outputs(tape: Tape, other: Tape, order: torch.Tensor, size: int) -> None:
    """Abstain where a sample has other outputs in another order, as in mixup; other checks look at that."""
    if len(tape.heads) != len(other.heads) or not tape.heads:
        raise NotApplicable("another order takes other operations")
    for one, two in zip(tape.heads, other.heads, strict=True):
        if not one.shape or one.shape != two.shape or one.shape[0] % size:
            raise NotApplicable("the outputs have no batch dimension")
        expected = one.value.reshape(size, -1)[order.to(one.value.device)].double()
        found = two.value.reshape(size, -1).double()
        if float((expected - found).abs().max()) > ROUNDING * max(float(expected.std()), 1e-6):
            raise NotApplicable("the outputs of a sample depend on the order; see batch-mixing")


@check(explains=("labels-unrelated-to-inputs", "cannot-overfit-batch", "worse-than-baseline"))
def loss_depends_on_order(
    loss: ReorderedLoss,
    *,
    change: float = 0.02,  # relative to the loss; ties in a ranking change it by less; our choice
    walked: float = 5e-5,  # relative to the loss of a loop over samples; float32 rounding is below 1e-5; our choice
) -> Iterator[Finding]:
    """The loss depends on the order of the samples in the batch.

    nbdebug puts the samples of one batch in other orders, in eval mode. Where each sample keeps its outputs and its
    target, but the loss changes, outputs are compared with the targets of other samples. A loss that takes more
    operations for more samples, and depends on their order, walks along the batch instead of along time.

    Why it matters: a shift along the batch dimension instead of the time dimension, or a `roll`, pairs every sample
    with the label of its neighbor. With shuffled batches, that label is random.

    What to try: check the dimension of each slice between the outputs and the loss: `logits[:, :-1]`, not
    `logits[:-1]`.
    """
    if loss.walked > walked and loss.change <= change:
        yield _walks(loss, walked)
    if loss.change > change:
        other = max(loss.reordered, key=lambda value: abs(value - loss.loss))
        yield Finding(
            f"The loss depends on the order of the {loss.samples} samples: it is {loss.loss:.4g}, in another order "
            f"{other:.4g}, although each sample has the same outputs.",
            where=loss.place,
            severity="suspect",
            evidence={
                "loss": loss.loss,
                "loss in other orders": list(loss.reordered),
                "largest relative change": loss.change,
                "threshold": change,
                "source": "a loss over independent samples is a sum, which has no order",
            },
            remedies=(Remedy("Shift along the time dimension.", "logits, y = logits[:, :-1], y[:, 1:]"),),
            exhibit=Bars(
                ("as loaded", "reversed", "shuffled")[: 1 + len(loss.reordered)],
                (loss.loss, *loss.reordered),
                unit="loss",
            ),
        )


def _walks(loss: ReorderedLoss, walked: float) -> Finding:
    return Finding(
        f"The loss walks along the {loss.samples} samples of the batch: it takes operations for each of them, and "
        f"changes by {loss.walked:.2%} in another order.",
        where=loss.place,
        severity="suspect",
        evidence={
            "relative change by another order": loss.walked,
            "samples": loss.samples,
            "threshold": walked,
            "source": "a loss over independent samples is a sum, which has no order",
        },
        remedies=(Remedy("Let it walk along time, e.g. by `batch_first`.", "crf = CRF(num_tags, batch_first=True)"),),
    )
