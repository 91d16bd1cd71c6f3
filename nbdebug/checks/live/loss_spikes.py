"""The loss spikes repeatedly."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loss_course import LossCourse

__all__ = ["loss_spikes"]


@check
def loss_spikes(
    course: LossCourse,
    *,
    spikes: int = 3,  # our choice: one or two may be single hard batches
    lasting: float = 0.5,  # fraction of spikes that last for several steps; a single hard batch does not; our choice
) -> Iterator[Finding]:
    """The loss spikes repeatedly and takes several steps to recover.

    nbdebug watches your training and looks for steps at which the loss exceeds its recent level by more than ten times
    the usual noise and undoes half of the progress. A single hard batch, after which the loss is back at once, does not
    count.

    Why it matters: each spike overwrites part of what was learned. The learning rate may be too high, the data may be
    sorted (class after class), or some batches may contain wrong values or labels.

    What to try: inspect the batches of these steps, shuffle the data, lower the learning rate or clip the gradients.
    """
    course.require_progress()
    if course.begins_again:
        raise NotApplicable("an inner loop restarts repeatedly, with other weights or other data")
    if len(course.spikes) < spikes or course.lasting < lasting * len(course.spikes):
        return
    step, loss, around = max(course.spikes, key=lambda spike: spike[1] - spike[2])
    yield Finding(
        f"The loss spiked {len(course.spikes)} times in {course.looked_for_spikes} steps, from {around:.3g} to "
        f"{loss:.3g} at step {step} (usual step-to-step noise: {course.noise:.2g}).",
        where="loss",
        severity="suspect",
        evidence={
            "steps of the spikes": [spike[0] for spike in course.spikes[:20]],
            "spikes": len(course.spikes),
            "usual scatter": course.noise,
            "threshold": spikes,
            "source": "more than 10 times the usual noise, and half of the progress undone",
        },
        remedies=(
            Remedy(
                "Inspect the batches that cause the spikes, from within your loop.",
                f"if loss.item() > {(loss + around) / 2:.3g}:\n    nbdebug.show_batch([batch])",
            ),
            Remedy("Divide the learning rate by 10.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
            Remedy("Clip the gradients.", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
