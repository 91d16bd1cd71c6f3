"""A loss that jumps up again and again."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossCourse
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["loss_spikes"]


@check
def loss_spikes(
    course: LossCourse,
    *,
    spikes: int = 3,
    lasting: float = 0.5,  # share of the spikes that show in the next steps, too; an odd sample does not
) -> Iterator[Finding]:
    """The loss jumps up again and again, and needs several steps to come down.

    nbdebug watches your training and looks for steps at which the loss leaves its surroundings by more than ten times
    the usual scatter and undoes half of what was gained. A single hard batch, after which all is as before, does not
    count.

    Why it matters: what was learned is partly overwritten each time. The learning rate may be too high, the data may
    come in an order (class after class), or some batches may hold values or labels that are wrong.

    What to try: look at the batches of these steps, shuffle the data, lower the learning rate or clip the gradient.
    """
    course.require_progress()
    if course.begins_again:
        raise NotApplicable("an inner loop begins again and again, with other weights or with other data")
    if len(course.spikes) < spikes or course.lasting < lasting * len(course.spikes):
        return
    step, loss, around = max(course.spikes, key=lambda spike: spike[1] - spike[2])
    yield Finding(
        f"The loss jumped {len(course.spikes)} times in {course.looked_for_spikes} steps, from {around:.3g} to "
        f"{loss:.3g} at step {step}; single steps usually differ by {course.noise:.2g}.",
        where="loss",
        severity="suspect",
        evidence={
            "steps of the spikes": [spike[0] for spike in course.spikes[:20]],
            "spikes": len(course.spikes),
            "usual scatter": course.noise,
            "threshold": spikes,
            "source": "ten scatters, and half of the progress",
        },
        remedies=(
            Remedy(
                "Look at the batches at which it jumps, from within your loop.",
                f"if loss.item() > {(loss + around) / 2:.3g}:\n    nbdebug.show_batch([batch])",
            ),
            Remedy("Lower the learning rate tenfold.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
            Remedy("Clip the gradient.", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
