"""The loss is much higher in eval mode than in training mode."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import ModeGap
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["train_eval_gap"]


@check
def train_eval_gap(gap: ModeGap, *, lost: float = 0.5) -> Iterator[Finding]:  # TheDeepChecker: loss changed by > 50 %
    """The loss is much higher in eval mode than in training mode, on the same data.

    nbdebug trains a copy briefly, lets the running statistics converge, and compares the loss on the same batches in
    both modes. What counts is the fraction of the improvement that is lost in eval mode.

    Why it matters: inference runs in eval mode. Running statistics that do not match the batches, or code that behaves
    differently when `self.training` is False, make a well-trained model useless.

    What to try: check the module named: the momentum and batch size of BatchNorm, one normalization layer shared by
    different kinds of data, and branches on `self.training`.
    """
    given = _share(gap.given_train, gap.given_eval, gap.chance)
    if given is not None and given > lost:
        yield _finding(gap, given, lost, "suspect", gap.given_train, gap.given_eval, "As passed, ")
        return
    if gap.start - gap.train < 0.1 * abs(gap.start):
        raise NotApplicable(f"{gap.steps} training steps did not lower the loss, so there is nothing to compare")
    learned = gap.start - gap.train
    settled = (gap.settled - gap.train) / learned
    if settled > lost:
        text = f"After {gap.steps} training steps, "
        yield _finding(gap, settled, lost, "suspect", gap.train, gap.settled, text)
    elif (gap.eval - gap.train) / learned > lost:
        text = f"After {gap.steps} steps, before the running statistics converged, "
        yield _finding(gap, (gap.eval - gap.train) / learned, lost, "note", gap.train, gap.eval, text)


def _share(train: float, evaluated: float, chance: float | None) -> float | None:
    """Return the fraction of the improvement over chance lost in eval mode; None for an untrained model."""
    if chance is None or train > 0.5 * chance or chance <= 0:
        return None
    return (evaluated - train) / (chance - train)


def _finding(
    gap: ModeGap, share: float, limit: float, severity: Severity, train: float, evaluated: float, when: str
) -> Finding:
    return Finding(
        f"{when}the loss is {train:.3g} in training mode but {evaluated:.3g} in eval mode ({min(share, 9.99):.0%} of "
        f"the improvement lost). The modes first differ at `{gap.first}` ({gap.first_module}).",
        where=gap.first,
        severity=severity,
        evidence={
            "training mode": train,
            "eval mode": evaluated,
            "share lost": share,
            "threshold": limit,
            "source": "TheDeepChecker: loss changed by more than 50 % between the modes",
        },
        remedies=(
            Remedy(
                "Use a momentum that lets the running statistics follow the batches.",
                "nn.BatchNorm2d(channels, momentum=0.1)",
                Patch("norm-momentum"),
            ),
            Remedy("Use a normalization without running statistics.", "nn.GroupNorm(8, channels)", Patch("group-norm")),
        ),
        exhibit=Bars(("training mode", "eval mode"), (train, evaluated), "Loss on the same batches"),
    )
