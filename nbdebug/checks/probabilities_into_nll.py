"""A likelihood that gets something else than log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import HeadResponse, LossResponse
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["probabilities_into_nll"]


@check(explains=("batch-not-memorised", "initial-loss-off", "worse-than-baseline"))
def probabilities_into_nll(
    response: LossResponse,
    *,
    offset: float = 0.01,  # 1 - p, a loss that is robust to wrong labels, has 1; a likelihood has none
) -> Iterator[Finding]:
    """NLLLoss gets outputs that are no log-probabilities.

    nbdebug finds a loss that merely picks the target's entry out of the outputs (its gradient is the same whatever the
    outputs are), and looks whether the exponentials of the outputs sum to 1, also with the last layer scaled.

    Why it matters: such a loss is a likelihood only of log-probabilities. With probabilities its gradient does not grow
    when the model is wrong; with raw scores it falls without end while nothing is learned about the other classes.

    What to try: end the model with log_softmax, or use cross-entropy with the raw scores.
    """
    heads = [head for head in response.heads if head.family == "linear" and head.is_compared]
    if not heads:
        raise NotApplicable("the loss does not read log-probabilities")
    for head in heads:
        if head.scale != "log-probabilities" and head.offset <= offset:
            yield Finding(
                f"{response.begins} picks the target's entry as if it were a log-probability, but the outputs of "
                f"{head.place} ({head.module}) are {_kind(head)}: they lie between {head.seen_low:.3g} and "
                f"{head.seen_high:.3g} on real batches.",
                where=head.place,
                severity="suspect" if response.assumed or head.high <= 0 else "bug",
                evidence={
                    "outputs": _kind(head),
                    "lowest": head.seen_low,
                    "highest": head.seen_high,
                    "threshold": "the exponentials of the outputs have to sum to 1 (within 0.001)",
                    "source": "37 reasons, 19; documentation of torch.nn.NLLLoss",
                },
                remedies=(
                    Remedy(
                        "Use cross-entropy, which takes raw scores.",
                        "loss_fn = nn.CrossEntropyLoss()  # and no softmax in the model",
                        Patch("replace-loss", {"loss": "cross-entropy"}),
                    ),
                    Remedy(
                        "Or end the model with log_softmax.",
                        "return scores.log_softmax(dim=1)",
                        Patch("put-behind-model", {"function": _to_log_probabilities(head)}),
                    ),
                ),
            )


def _kind(head: HeadResponse) -> str:
    if head.scale == "probabilities":
        return "probabilities"
    return "between 0 and 1" if head.is_unit_interval else "raw scores" if head.high > 0 else "not normalised"


def _to_log_probabilities(head: HeadResponse) -> str:
    return "log" if head.scale == "probabilities" else "log-softmax"
