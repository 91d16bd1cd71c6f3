"""NLLLoss receives outputs that are not log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.evidence.loss_response import HeadResponse, LossResponse
from nbdebug.experiments.divergences import Divergence

__all__ = ["probabilities_into_nll"]


@check(explains=("cannot-overfit-batch", "loss-unbounded-below", "initial-loss-off", "worse-than-baseline"))
def probabilities_into_nll(
    response: LossResponse | None,
    operands: LossOperands | None,
    *,
    offset: float = 0.01,  # 1 - p, a loss that is robust to label noise, has 1; a likelihood has none
) -> Iterator[Finding]:
    """NLLLoss or KLDivLoss receives outputs that are not log-probabilities.

    nbdebug detects a loss that picks the target's entry from the outputs (its gradient does not depend on the outputs),
    and checks whether the exponentials of the outputs sum to 1, also with the last layer rescaled. In a recorded run,
    it reads what each `kl_div` takes for logarithms: a value above 0 is none.

    Why it matters: such a loss is a negative log-likelihood only of log-probabilities. With probabilities its gradient
    does not grow when the model is wrong; with logits it falls without bound while nothing is learned about the other
    classes.

    What to try: end the model with `log_softmax`, or use cross-entropy with logits.
    """
    given = operands.divergences if operands is not None else ()
    heads = [head for head in response.heads if head.family == "linear" and head.is_compared] if response else []
    if not heads and not given:
        raise NotApplicable("the loss does not expect log-probabilities")
    is_found = False
    for head in heads:
        if response is not None and head.scale != "log-probabilities" and head.offset <= offset:
            is_found = True
            yield Finding(
                f"{response.begins} expects log-probabilities but receives {_kind(head)} from `{head.place}` "
                f"({head.module}), between {head.seen_low:.3g} and {head.seen_high:.3g}.",
                where=head.place,
                severity="suspect" if response.assumed or head.high <= 0 else "bug",
                evidence={
                    "outputs": _kind(head),
                    "lowest": head.seen_low,
                    "highest": head.seen_high,
                    "threshold": "the exponentials of the outputs must sum to 1 (within 0.001)",
                    "source": "37 reasons, 19; documentation of torch.nn.NLLLoss",
                },
                remedies=(
                    Remedy(
                        "Use cross-entropy, which expects logits.",
                        "loss_fn = nn.CrossEntropyLoss()  # and no softmax in the model",
                        Patch("replace-loss", {"loss": "cross-entropy"}),
                    ),
                    Remedy(
                        "End the model with `log_softmax`.",
                        "return scores.log_softmax(dim=1)",
                        Patch("put-behind-model", {"function": _to_log_probabilities(head)}),
                    ),
                ),
            )
    if operands is not None and given and not is_found:
        yield _of_divergence(given[0], operands.place)


def _of_divergence(found: Divergence, place: str) -> Finding:
    made = "target = teacher_scores.log_softmax(dim=-1)" if found.argument == "target" else ""
    return Finding(
        f"`kl_div` expects the logarithm of probabilities as its {found.argument} but receives {found.kind}, between "
        f"{found.low:.3g} and {found.high:.3g}.",
        where=place,
        severity="bug",
        evidence={
            "argument": found.argument,
            "log_target": found.log_target,
            "lowest": found.low,
            "highest": found.high,
            "threshold": "the logarithm of a probability is at most 0",
            "source": "documentation of torch.nn.KLDivLoss: input in the log-space, target too with log_target=True",
        },
        remedies=(
            Remedy("Pass log-probabilities.", made or "loss = F.kl_div(scores.log_softmax(dim=-1), probabilities)"),
        ),
    )


def _kind(head: HeadResponse) -> str:
    """Return what the outputs are instead of log-probabilities."""
    if head.scale == "probabilities":
        return "probabilities"
    return "values in [0, 1]" if head.is_unit_interval else "logits" if head.high > 0 else "unnormalized values"


def _to_log_probabilities(head: HeadResponse) -> str:
    return "log" if head.scale == "probabilities" else "log-softmax"
