"""Softmax over the wrong dimension."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_response import HeadResponse, LossResponse

__all__ = ["softmax_over_wrong_dim"]


@check(
    explains=(
        "batch-mixing",
        "clamped-output",
        "probabilities-into-nll",
        "causal-leak",
        "initial-loss-off",
        "cannot-overfit-batch",
        "worse-than-baseline",
    )
)
def softmax_over_wrong_dim(response: LossResponse) -> Iterator[Finding]:
    """A softmax normalizes over the wrong dimension.

    nbdebug determines over which dimension the outputs sum to 1, with the real and with a rescaled last layer, and over
    which one the loss normalizes, and compares it with the class dimension.

    Why it matters: not the classes compete with each other, but the samples of the batch, the positions of a sequence
    or the pixels. The loss may fall, but predictions depend on the rest of the batch.

    What to try: pass the class dimension as `dim`: 1 for (batch, classes, …), -1 for (batch, time, classes).
    """
    for head in response.heads:
        wrong = _wrong_dimension(head)
        if wrong is not None:
            yield _found(response, head, head.place, wrong, f"The output of `{head.place}` ({head.module}) sums to 1")
        elif _loss_is_wrong(head) and head.loss_dim is not None:
            yield _found(response, head, response.place, head.loss_dim, f"{response.begins} normalizes")
    for path, module in response.over_samples:
        yield Finding(
            f"The output of `{path}` ({module}) sums to 1 over the batch ({response.batch_size} samples, dim 0).",
            where=path,
            evidence={"dimension": 0, "threshold": "sums within 0.001 of 1", "source": "Karpathy's recipe"},
            remedies=(
                Remedy(
                    "Apply the softmax within each sample.",
                    "weights = scores.softmax(dim=-1)",
                    Patch("softmax-dimension", {"wrong": 0, "right": -1}),
                ),
            ),
        )


def _wrong_dimension(head: HeadResponse) -> int | None:
    """Return the dimension over which the outputs are normalized, if it is not the class dimension."""
    if not head.over or head.class_dim in head.over or head.loss_dim in head.over:
        return None
    if head.class_dim is not None and head.classes > 1:
        return head.over[0]
    return 0 if head.over == (0,) else None


def _loss_is_wrong(head: HeadResponse) -> bool:
    if head.family != "softmax" or head.is_compared or head.class_dim is None or head.loss_dim is None:
        return False
    square = (
        head.shape[head.loss_dim] == head.shape[head.class_dim]
    )  # similarity matrices are normalized over both dimensions
    return head.loss_dim != head.class_dim and head.classes > 1 and not square


def _found(response: LossResponse, head: HeadResponse, where: str, wrong: int, does: str) -> Finding:
    over = "the batch" if wrong == 0 else f"{head.shape[wrong]} positions"
    right = head.class_dim if head.class_dim is not None else -1
    classes = f"; the class dimension is {right} ({head.classes} classes)" if head.classes > 1 else ""
    return Finding(
        f"{does} over dim {wrong} ({over}) of shape {head.shape}{classes}.",
        where=where,
        severity="bug" if head.classes > 1 and not response.assumed else "suspect",
        evidence={
            "normalized over dimension": wrong,
            "dimension of the classes": right,
            "threshold": "sums within 0.001 of 1, also with a rescaled last layer",
            "source": "Karpathy's recipe; documentation of torch.nn.Softmax",
        },
        remedies=(
            Remedy(
                "Apply the softmax over the class dimension.",
                f"scores.log_softmax(dim={right})",
                Patch("softmax-dimension", {"wrong": wrong, "right": right}),
            ),
            Remedy(
                "Pass logits to cross-entropy, with the classes in dim 1.",
                "loss_fn(scores, target)",
                Patch("drop-last-activation"),
            ),
        ),
    )
