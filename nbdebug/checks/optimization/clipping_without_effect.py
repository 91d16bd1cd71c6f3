"""Gradient clipping in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.step_events import ClipFacts, StepEvents

__all__ = ["clipping_without_effect"]

ORDER = """optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
optimizer.step()"""
SCALED = """scaler.scale(loss).backward()
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
scaler.step(optimizer)
scaler.update()"""


@check(explains=("exploding-gradients", "loss-spikes", "loss-diverges"))
def clipping_without_effect(
    events: StepEvents,
    *,
    calls: int = 3,  # of a clipping function; fewer show no habit; our choice
) -> Iterator[Finding]:
    """Gradients are clipped where it has no effect: after the optimizer step, before backward, or before unscaling.

    nbdebug calls your training step on a copy and notes when `clip_grad_norm_` or `clip_grad_value_` is called, on
    which gradients, and whether an optimizer step uses these afterwards. Measuring the norm with an infinite limit is
    fine.

    Why it matters: the training runs without the protection that its author relies on. With a gradient scaler, a limit
    that is applied to scaled gradients shrinks every gradient by the factor of the scale.

    What to try: clip between `backward()` and `step()`, and call `scaler.unscale_(optimizer)` before.
    """
    if not events.is_step:
        raise NotApplicable("no train_step was passed, so no clipping was observed")
    clips = events.clips
    if clips.calls < calls:
        return
    if not clips.used:
        when = (
            "before `backward()`, when there are no gradients"
            if clips.without_gradient == clips.calls
            else ("after the optimizer step that uses them, or they are cleared before any step")
        )
        yield _finding(clips, f"Gradients are clipped {when}: no step used a clipped gradient.", ORDER)
    elif clips.scaled == clips.calls:
        says = f"Gradients are clipped at {clips.limit:g} while they are still multiplied by the loss scale."
        yield _finding(clips, says, SCALED)


def _finding(clips: ClipFacts, says: str, code: str) -> Finding:
    return Finding(
        f"{says} ({clips.calls} calls)",
        where="train_step",
        evidence={
            "calls that clip": clips.calls,
            "used by a step": clips.used,
            "without gradients": clips.without_gradient,
            "before unscaling": clips.scaled,
            "threshold": "a step uses the clipped gradients",
            "source": "observed calls",
        },
        remedies=(Remedy("Clip between backward and step.", code),),
    )
