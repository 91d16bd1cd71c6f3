"""Targets of another kind than the loss function is made for."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.experiments.target_domains import WrongTargets

__all__ = ["targets_outside_loss_domain"]


@check(explains=("class-ignored-by-loss", "wrong-loss-for-task", "training-fails", "worse-than-baseline"))
def targets_outside_loss_domain(
    operands: LossOperands,
    *,
    share: float = 0.1,  # of the targets that the loss cannot be right about; single ones are unlabeled samples
) -> Iterator[Finding]:
    """A margin loss gets labels 0 and 1 instead of -1 and 1, or probabilities that exclude each other several labels.

    nbdebug records one run of your loss and reads the targets of margin losses (`soft_margin_loss`,
    `margin_ranking_loss`, `cosine_embedding_loss`, `hinge_embedding_loss`, `relu(1 - y * score)`), and those of a
    `binary_cross_entropy` whose predictions sum to 1 in every row.

    Why it matters: a margin loss multiplies by its label, so a label of 0 has no gradient: one of both classes is never
    trained. A softmax in front of a binary loss can name only one of several labels.

    What to try: `y = 2 * y - 1` for a margin loss; a sigmoid for labels that may hold together.
    """
    for found in operands.wrong_targets:
        if found.share > share:
            yield _finding(found, operands.place, share)
            return


def _finding(found: WrongTargets, place: str, threshold: float) -> Finding:
    named = f"`{found.sources[0]}`" if len(found.sources) == 1 else "targets"
    says = (
        f"The {named} of `{found.op}` are 0 and 1 ({found.share:.0%} are 0), but a margin loss expects -1 and 1: a "
        "label of 0 has no gradient."
        if found.kind == "signs"
        else f"The predictions of `{found.op}` sum to 1 in every row, like a softmax, but {found.share:.0%} of the "
        "target rows have no label or several."
    )
    code = "y = 2 * y - 1" if found.kind == "signs" else "loss = F.binary_cross_entropy_with_logits(logits, y)"
    return Finding(
        says,
        where=place,
        severity="bug",
        evidence={
            "share of targets": found.share,
            "targets": found.rows,
            "made of": list(found.sources),
            "threshold": threshold,
            "source": "documentation of torch.nn.MarginRankingLoss, CosineEmbeddingLoss and BCELoss",
        },
        remedies=(Remedy("Give the loss the targets that it is made for.", code),),
    )
