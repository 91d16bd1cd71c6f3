"""Custom backward passes that do not match finite differences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdebug.evidence import CustomGradient, CustomGradients
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["custom_backward_wrong"]

# Common names of functions whose gradient differs from the true derivative on purpose.
_ON_PURPOSE = re.compile(
    r"ste$|STE|[Ss]traight|[Ss]urrogate|[Qq]uant|[Rr]ound|[Ss]ign|[Bb]inar|[Ss]pik|[Rr]evers|[Cc]lip|[Ss]top[Gg]rad"
)


@check(explains=("batch-not-memorised", "vanishing-gradients", "exploding-gradients"))
def custom_backward_wrong(
    custom: CustomGradients,
    *,
    error: float = 0.01,  # torch.autograd.gradcheck allows 1e-3 in double precision; ten times that
    error_in_single: float = 0.2,  # finite differences are coarse in single precision
) -> Iterator[Finding]:
    """The backward of an autograd.Function does not match the derivative of its forward.

    nbdebug calls every autograd.Function with a custom backward again, on the inputs that it received in one pass, and
    compares its gradient with finite differences in double precision, element by element. Functions whose forward is
    piecewise constant (sign, round) or the identity (gradient reversal) have other gradients on purpose, and are not
    reported as bugs.

    Why it matters: a wrong gradient does not point downhill. The loss may still fall, slowly, to a solution that is
    not the best.

    What to try: derive the backward again for the argument named; multiply by grad_output, save what the formula needs
    with ctx.save_for_backward, sum over broadcast dimensions; then run torch.autograd.gradcheck on it.
    """
    estimators = {g.function for g in custom.gradients if g.nature in ("steps", "identity")}
    reported: set[tuple[str, str]] = set()
    for gradient in custom.gradients:
        wrong = gradient.error > (error if gradient.precision == "double" else error_in_single)
        name = gradient.function, gradient.argument
        if gradient.nature == "steps" or name in reported or not (wrong or gradient.flat_but_given):
            continue
        reported.add(name)
        deliberate = gradient.function in estimators or bool(_ON_PURPOSE.search(gradient.function))
        yield _finding(gradient, wrong, "note" if deliberate else "bug" if wrong else "suspect", error)


def _finding(gradient: CustomGradient, wrong: bool, severity: Severity, allowed: float) -> Finding:
    return Finding(
        f"`{gradient.function}.backward` returns {_returned(gradient, wrong)} "
        f"({gradient.probed} elements compared), in `{gradient.where}`.",
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
            Remedy("Test it with gradcheck.", f"torch.autograd.gradcheck({gradient.function}.apply, inputs_in_double)"),
        ),
        exhibit=Bars(("relative error", "allowed"), (gradient.error, allowed), log=True),
    )


def _returned(gradient: CustomGradient, wrong: bool) -> str:
    name = gradient.argument
    if gradient.missing:
        return f"no gradient for `{name}`, although the output depends on it"
    if not wrong:
        return f"a nonzero gradient for `{name}` at {gradient.flat_but_given} points where the forward is constant"
    if gradient.ratio < 0:
        return f"a gradient for `{name}` with the wrong sign, {gradient.ratio:.2f} times the finite difference"
    return f"a gradient for `{name}` that is {gradient.error:.0%} off, about {gradient.ratio:.2f} times the true one"
