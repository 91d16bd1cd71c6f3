"""A loss that stopped to be a number."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import FirstBadValue
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["non_finite_loss"]

RAN_AWAY = 10.0  # times the first loss, before it was no number


@check(explains=("loss-flat", "loss-diverges", "loss-spikes", "weights-growing", "dead-units"))
def non_finite_loss(values: FirstBadValue) -> Iterator[Finding]:
    """The loss of the training became NaN or infinite.

    nbdebug watches your training and notes the first step at which the loss is not finite, and the first module whose
    output, or the first parameter whose gradient, was not finite by then. What shows it later was made so by the step.

    Why it matters: one step with such a loss makes every weight NaN, and nothing brings them back.

    What to try: go back to a checkpoint from before this step; look at the batch of this step, lower the learning rate,
    clip the gradient, and keep logarithms, roots and divisions away from zero.
    """
    if values.step is None:
        return
    place = ""
    if values.where:
        name = f"{values.where} ({values.module})" if values.module else values.where
        place = f" The first place that shows it is the {values.what} of {name}, at step {values.where_step}."
        if values.what == "gradient":
            place += " The loss was finite there: it is the way back that makes it, as that of a root or a norm of 0."
    elif values.finite_at == values.step:
        place = " The outputs of all layers were finite at that step: the loss itself makes it of them."
    elif values.finite_at is not None:
        place = f" The outputs of all layers were still finite at step {values.finite_at}."
    yield Finding(
        f"The loss is not finite from step {values.step} on ({values.count} times in {values.steps} steps).{place}",
        where=values.where or "loss",
        evidence={
            "first step": values.step,
            "steps with such a loss": values.count,
            "share of the module's values": values.share,
            "threshold": 0,
            "source": "37 reasons, 37",
        },
        remedies=_remedies(values),
        step=values.step,
    )


def _remedies(values: FirstBadValue) -> tuple[Remedy, ...]:
    """Name the learning rate first where the loss ran away before, and the loss where the layers are well."""
    stop = Remedy("Stop at the module that makes it.", 'nbdebug.tap(model, "**").break_when(lambda v: v.isnan().any())')
    slower = Remedy("Lower the learning rate tenfold.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10')
    clip = Remedy("Clip the gradient.", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    if values.grew > RAN_AWAY:
        return (slower, clip, stop)
    if values.what == "gradient":
        return (Remedy("Keep roots, norms, powers and divisions away from zero.", "(x + 1e-8).sqrt()"), clip, slower)
    if values.finite_at == values.step:
        return (Remedy("Keep logarithms, roots and divisions of the loss away from zero.", "x.clamp_min(1e-8)"), slower)
    return (stop, slower, clip)
