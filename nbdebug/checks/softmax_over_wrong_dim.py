"""Normalised over the samples, the positions or the pixels in place of the classes."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import HeadResponse, LossResponse
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["softmax_over_wrong_dim"]


@check(
    explains=(
        "batch-mixing",
        "clamped-output",
        "probabilities-into-nll",
        "causal-leak",
        "initial-loss-off",
        "batch-not-memorised",
        "worse-than-baseline",
    )
)
def softmax_over_wrong_dim(response: LossResponse) -> Iterator[Finding]:
    """A softmax is taken over another dimension than that of the classes.

    nbdebug looks along which dimension the outputs sum to 1, with real and with scaled last layers, and along which one
    the loss normalises, and compares with the dimension in which the scores of the classes lie.

    Why it matters: the classes then do not compete with each other; the samples of the batch, the positions of a
    sequence or the pixels do. The loss may fall, but predictions depend on what else is in the batch.

    What to try: name the dimension of the classes: 1 for (batch, classes, …), -1 for (batch, time, classes).
    """
    for head in response.heads:
        wrong = _wrong_dimension(head)
        if wrong is not None:
            yield _found(response, head, head.place, wrong, f"the outputs of {head.place} ({head.module}) sum to 1")
        elif _loss_is_wrong(head) and head.loss_dim is not None:
            yield _found(response, head, response.place, head.loss_dim, f"{response.loss_name} normalises")
    for path, module in response.over_samples:
        yield Finding(
            f"The outputs of {path} ({module}) sum to 1 over the {response.batch_size} samples of the batch.",
            where=path,
            evidence={"dimension": 0, "threshold": "sums within 0.001 of 1", "source": "Karpathy's recipe"},
            remedies=(
                Remedy(
                    "Take the softmax within each sample.",
                    "weights = scores.softmax(dim=-1)",
                    Patch("softmax-dimension", {"wrong": 0, "right": -1}),
                ),
            ),
        )


def _wrong_dimension(head: HeadResponse) -> int | None:
    """Give the dimension over which the outputs are normalised, if it is none that the classes lie in."""
    if not head.over or head.class_dim in head.over or head.loss_dim in head.over:
        return None
    if head.class_dim is not None and head.classes > 1:
        return head.over[0]
    return 0 if head.over == (0,) else None


def _loss_is_wrong(head: HeadResponse) -> bool:
    if head.family != "softmax" or head.is_compared or head.class_dim is None or head.loss_dim is None:
        return False
    square = head.shape[head.loss_dim] == head.shape[head.class_dim]  # similarities of pairs are compared both ways
    return head.loss_dim != head.class_dim and head.classes > 1 and not square


def _found(response: LossResponse, head: HeadResponse, where: str, wrong: int, does: str) -> Finding:
    over = "the samples of the batch" if wrong == 0 else f"the {head.shape[wrong]} positions of dimension {wrong}"
    right = head.class_dim if head.class_dim is not None else -1
    lie = f"; the {head.classes} classes lie in dimension {right}" if head.classes > 1 else ""
    return Finding(
        f"For an output of shape {head.shape}, {does} over {over}{lie}.",
        where=where,
        severity="bug" if head.classes > 1 and not response.assumed else "suspect",
        evidence={
            "normalised over dimension": wrong,
            "dimension of the classes": right,
            "threshold": "sums within 0.001 of 1, whatever the last layer",
            "source": "Karpathy's recipe; documentation of torch.nn.Softmax",
        },
        remedies=(
            Remedy(
                "Name the dimension of the classes.",
                f"scores.log_softmax(dim={right})",
                Patch("softmax-dimension", {"wrong": wrong, "right": right}),
            ),
            Remedy(
                "Cross-entropy wants raw scores, with the classes in dimension 1.",
                "loss_fn(scores, target)",
                Patch("drop-last-activation"),
            ),
        ),
    )
