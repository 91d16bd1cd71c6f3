"""Training steps in eval mode."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.step_modes import StepModes

__all__ = ["left_in_eval_mode"]


@check
def left_in_eval_mode(modes: StepModes) -> Iterator[Finding]:
    """Training steps run while the model is in eval mode.

    nbdebug finds the modules that behave differently in the two modes, runs your train_step twice on a copy, and checks
    their mode inside it. BatchNorm layers that stay frozen while the rest trains are fine.

    Why it matters: in eval mode dropout is off and BatchNorm uses its running statistics without updating them. The
    model trains without its regularization, and with statistics that never match the data.

    What to try: call model.train() at the start of each epoch, after every evaluation.
    """
    if modes.whole_in_eval or (modes.put_to_eval and len(modes.put_to_eval) == len(modes.sensitive)):
        yield _finding(modes, "`train_step` switches the model to eval mode and trains it there", "bug")
    elif modes.left_in_eval and len(modes.left_in_eval) == len(modes.sensitive):
        says = "`train_step` leaves the model in eval mode, so the next step trains in eval mode"
        yield _finding(modes, says, "suspect")  # a loop may call train() before each step
    elif modes.has_step and not modes.handed_training and modes.eval_as_handed:
        yield _finding(modes, f"The model is in eval mode while {modes.place} trains it", "suspect")
    elif not modes.has_step and not modes.handed_training:
        says = "The model was passed in eval mode (nbdebug trains its copies in training mode)"
        yield _finding(modes, says, "note")


def _finding(modes: StepModes, says: str, severity: Severity) -> Finding:
    places = modes.put_to_eval or modes.sensitive
    named = ", ".join(f"`{place}`" for place in places[:3])
    return Finding(
        f"{says} (affects {named}{f' and {len(places) - 3} more' if len(places) > 3 else ''}).",
        where=places[0],
        severity=severity,
        evidence={
            "modules that obey the mode": len(modes.sensitive),
            "in eval mode within the step": list(places[:20]),
            "threshold": 0,
            "source": "37 reasons, 32",
        },
        remedies=(
            Remedy(
                "Call `model.train()` after every evaluation.",
                "model.train()",
                Patch("switch-to-training") if modes.has_step else None,
            ),
        ),
    )
