"""A backward written by hand that is not the slope of its forward."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdebug.evidence import CustomGradient, CustomGradients
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["custom_backward_wrong"]

# Names that people give to functions whose gradient is meant to differ from the slope.
_ON_PURPOSE = re.compile(
    r"ste$|STE|[Ss]traight|[Ss]urrogate|[Qq]uant|[Rr]ound|[Ss]ign|[Bb]inar|[Ss]pik|[Rr]evers|[Cc]lip|[Ss]top[Gg]rad"
)


@check(explains=("batch-not-memorised", "vanishing-gradients", "exploding-gradients"))
def custom_backward_wrong(
    custom: CustomGradients,
    *,
    error: float = 0.01,  # torch.autograd.gradcheck allows 1e-3 in double precision; one decimal of room
    error_in_single: float = 0.2,  # differences of single-precision numbers are coarse
) -> Iterator[Finding]:
    """An autograd.Function gives a gradient that is not the slope of its forward.

    nbdebug calls every function with a backward of its own again, on the values that it was given in one pass, and
    measures its slope in double precision, element by element. Functions whose forward moves in steps (sign, round) or
    gives back what it is given (gradient reversal) have other gradients on purpose, and are left alone.

    Why it matters: a wrong gradient leads somewhere else than down. The loss may even fall, slowly, to a place that is
    not the best.

    What to try: derive the backward again for the argument named; multiply by grad_output, save what the formula needs
    with ctx.save_for_backward, sum over dimensions that were broadcast; then run torch.autograd.gradcheck on it.
    """
    estimators = {g.function for g in custom.gradients if g.nature in ("steps", "identity")}
    said: set[tuple[str, str]] = set()
    for gradient in custom.gradients:
        wrong = gradient.error > (error if gradient.precision == "double" else error_in_single)
        name = gradient.function, gradient.argument
        if gradient.nature == "steps" or name in said or not (wrong or gradient.flat_but_given):
            continue
        said.add(name)
        deliberate = gradient.function in estimators or bool(_ON_PURPOSE.search(gradient.function))
        yield _finding(gradient, wrong, "note" if deliberate else "bug" if wrong else "suspect", error)


def _finding(gradient: CustomGradient, wrong: bool, severity: Severity, allowed: float) -> Finding:
    return Finding(
        f"{gradient.function} gives for its argument {gradient.argument!r} {_how(gradient, wrong)} "
        f"({gradient.probed} elements compared), in {gradient.where}.",
        where=gradient.where,
        severity=severity,
        evidence={
            "relative error": gradient.error,
            "given / measured": gradient.ratio,
            "given where the forward is flat": gradient.flat_but_given,
            "precision": gradient.precision,
            "threshold": allowed,
            "source": "torch.autograd.gradcheck",
        },
        remedies=(
            Remedy("Check it by itself.", f"torch.autograd.gradcheck({gradient.function}.apply, inputs_in_double)"),
        ),
        exhibit=Bars(("relative error", "allowed"), (gradient.error, allowed), log=True),
    )


def _how(gradient: CustomGradient, wrong: bool) -> str:
    if gradient.missing:
        return "no gradient, although its forward depends on it"
    if not wrong:
        return f"a gradient where its forward is flat, at {gradient.flat_but_given} places"
    if gradient.ratio < 0:
        return f"a gradient that points the other way ({gradient.ratio:.2f} times the slope of its forward)"
    return f"a gradient that is {gradient.error:.0%} off the slope of its forward (about {gradient.ratio:.2f} times it)"
