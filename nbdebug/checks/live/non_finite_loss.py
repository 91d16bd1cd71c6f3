"""The training loss became NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.recorded.values import FirstBadValue

__all__ = ["non_finite_loss"]

DIVERGED = 10.0  # times the first loss, before it became non-finite


@check(explains=("loss-flat", "loss-diverges", "loss-spikes", "weights-growing", "dead-units"))
def non_finite_loss(values: FirstBadValue) -> Iterator[Finding]:
    """The training loss became NaN or Inf.

    nbdebug watches your training and records the first step at which the loss is not finite, and the first module
    output or parameter gradient that was not finite by then. Later non-finite values are consequences of that step.

    Why it matters: one step with such a loss makes every weight NaN, and training cannot recover.

    What to try: restore a checkpoint from before this step; inspect the batch of this step, lower the learning rate,
    clip the gradients, and keep logarithms, square roots and divisions away from zero.
    """
    if values.step is None:
        return
    place = ""
    if values.where:
        name = f"`{values.where}` ({values.module})" if values.module else f"`{values.where}`"
        on = "" if values.rank is None else f" on rank {values.rank}"
        place = f" The first non-finite value{on} is in the {values.what} of {name}, at step {values.where_step}."
        if values.what == "gradient":
            place += " The loss was finite at that step, so the backward pass produces it (as `sqrt` or `norm` at 0)."
    elif values.finite_at == values.step:
        place = " All layer outputs were finite at that step, so the loss function itself produces it."
    elif values.finite_at is not None:
        place = f" All layer outputs were still finite at step {values.finite_at}."
    elsewhere = "" if values.rank is None or values.where else f" on rank {values.rank}"
    yield Finding(
        f"The loss{elsewhere} is NaN or Inf from step {values.step} on ({values.count} of {values.steps} steps)."
        f"{place}",
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
    """Return the fixes: the learning rate first if the loss diverged, the loss first if all layers stay finite."""
    stop = Remedy(
        "Break at the module that produces it.", 'nbdebug.tap(model, "**").break_when(lambda v: v.isnan().any())'
    )
    slower = Remedy("Divide the learning rate by 10.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10')
    clip = Remedy("Clip the gradients.", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    if values.grew > DIVERGED:
        return (slower, clip, stop)
    if values.what == "gradient":
        return (
            Remedy("Keep square roots, norms, powers and divisions away from zero.", "(x + 1e-8).sqrt()"),
            clip,
            slower,
        )
    if values.finite_at == values.step:
        return (
            Remedy("Keep logarithms, square roots and divisions in the loss away from zero.", "x.clamp_min(1e-8)"),
            slower,
        )
    return (stop, slower, clip)
