"""Training in eval mode."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import StepModes
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["left_in_eval_mode"]


@check
def left_in_eval_mode(modes: StepModes) -> Iterator[Finding]:
    """Training steps run while the model is in eval mode.

    nbdebug finds the modules that behave differently in the two modes, runs your train_step on a copy twice, and looks
    at their mode within it. A batch normalisation that stays frozen while the rest trains is fine.

    Why it matters: in eval mode dropout does nothing and batch normalisation uses and keeps its old statistics. The
    model trains without the regularisation that you gave it, and with statistics that never fit.

    What to try: call model.train() at the start of each epoch, after every evaluation.
    """
    if modes.whole_in_eval or (modes.put_to_eval and len(modes.put_to_eval) == len(modes.sensitive)):
        yield _finding(modes, "Your train_step puts the model into eval mode and trains it there", "bug")
    elif modes.left_in_eval and len(modes.left_in_eval) == len(modes.sensitive):
        says = "Your train_step leaves the model in eval mode, so that the step after it trains the model there"
        yield _finding(modes, says, "suspect")  # a loop may call train() before each step
    elif modes.has_step and not modes.handed_training and modes.eval_as_handed:
        yield _finding(modes, f"The model is in eval mode, and {modes.place} trains it so", "suspect")
    elif not modes.has_step and not modes.handed_training:
        says = "The model was handed over in eval mode (nbdebug trains its copies in training mode)"
        yield _finding(modes, says, "note")


def _finding(modes: StepModes, says: str, severity: Severity) -> Finding:
    places = modes.put_to_eval or modes.sensitive
    return Finding(
        f"{says}; this matters for {', '.join(places[:3])}{f' and {len(places) - 3} more' if len(places) > 3 else ''}.",
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
                "Switch back after every evaluation.",
                "model.train()",
                Patch("switch-to-training") if modes.has_step else None,
            ),
        ),
    )
