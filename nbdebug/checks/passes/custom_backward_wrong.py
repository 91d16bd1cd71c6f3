"""Custom backward passes that do not match finite differences."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.autograd_graph import NodeOwners
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.finite_differences import Derivatives, FunctionCall, calls_noted, derivatives_of, own_functions
from nbdebug.experiments.sample_exchange import Samples, runnable
from nbdebug.sandbox import Sandbox
from nbdebug.setup.batch_layout import BatchLayout

__all__ = ["CustomGradient", "CustomGradients", "custom_backward_wrong", "custom_gradients"]


@dataclass(frozen=True)
class CustomGradient:
    """The gradient that one autograd.Function gives for one of its arguments against finite differences of its forward.

    `ratio` is given over measured, by least squares; `error` the distance between the two relative to their size.
    `nature` is "smooth", "steps" where the forward is flat almost everywhere, or "identity".
    """

    function: str
    argument: str
    where: str
    nature: str
    error: float
    ratio: float
    probed: int
    flat_but_given: int = 0
    missing: bool = False
    precision: str = "double"


@dataclass(frozen=True)
class CustomGradients:
    """All functions with a backward of their own that one pass uses."""

    functions: tuple[str, ...]
    gradients: tuple[CustomGradient, ...]


SAMPLES = 4
CALLS = 3  # calls of one function that are examined


@probe
def custom_gradients(sandbox: Sandbox, trial: TrialRun, control: Control) -> CustomGradients:
    """Compare custom backward functions with finite differences."""
    require_run(trial)
    sandbox.ready_to_train()
    whole = sandbox.batch()
    batch = runnable(Samples(whole, BatchLayout(whole.size, is_certain=True)), SAMPLES, sandbox.run).batch
    loss = sandbox.run(batch).loss
    functions = own_functions(loss) if isinstance(loss, torch.Tensor) and loss.requires_grad else []
    if not functions:
        raise NotApplicable("no autograd.Function with a custom backward is used")
    if sys.getprofile() is not None:
        raise NotApplicable("a Python profiler is active, so the calls cannot be traced")
    owners = NodeOwners()
    hooks = tapped(sandbox.model, after=owners.after, before=owners.before)
    with hooks, calls_noted(functions, lambda: owners.innermost or "loss_fn") as calls:
        sandbox.run(batch)
    chosen = [call for f in functions for call in [c for c in calls if c.function is f][:CALLS]]
    return CustomGradients(tuple(f.__name__ for f in functions), tuple(_all_judged(chosen, control)))


def _all_judged(calls: list[FunctionCall], control: Control) -> list[CustomGradient]:
    """Judge one call after another, as many as fit."""
    return [found for call in control.as_many(calls) for found in _judged(call, control)]


def _judged(call: FunctionCall, control: Control) -> list[CustomGradient]:
    found = []
    for index, value in enumerate(call.args):
        control.poll()
        if not isinstance(value, torch.Tensor) or not value.requires_grad or not value.numel():
            continue
        derivatives = derivatives_of(call, index)
        if derivatives is not None:
            found.append(_summed_up(call, index, derivatives))
    return found


def _summed_up(call: FunctionCall, index: int, derivatives: Derivatives) -> CustomGradient:
    """Put the comparison into numbers; where the forward is flat, a gradient may be given on purpose."""
    given, measured = derivatives.given, derivatives.measured
    scale = max(float(measured.abs().max()), float(given.abs().max())) if given.numel() else 0.0
    flat = (measured.abs() <= 1e-6 * scale) & (given.abs() > 1e-3 * scale)
    kept_given, kept_measured = given[~flat], measured[~flat]
    size = max(float(kept_given.norm()), float(kept_measured.norm()))
    square = float(kept_measured @ kept_measured)
    return CustomGradient(
        function=call.function.__name__,
        argument=call.names[index],
        where=call.where,
        nature=derivatives.nature,
        error=float((kept_given - kept_measured).norm()) / size if size > 0 else 0.0,
        ratio=float(kept_given @ kept_measured) / square if square > 0 else 1.0,
        probed=int(given.numel()),
        flat_but_given=int(flat.sum()),
        missing=derivatives.missing,
        precision=derivatives.precision,
    )


# Common names of functions whose gradient differs from the true derivative on purpose.
_ON_PURPOSE = re.compile(
    r"ste$|STE|[Ss]traight|[Ss]urrogate|[Qq]uant|[Rr]ound|[Ss]ign|[Bb]inar|[Ss]pik|[Rr]evers|[Cc]lip|[Ss]top[Gg]rad"
)


@check(explains=("cannot-overfit-batch", "vanishing-gradients", "exploding-gradients"))
def custom_backward_wrong(
    custom: CustomGradients,
    *,
    error: float = 0.01,  # torch.autograd.gradcheck allows 1e-3 in double precision; ten times that
    error_in_single: float = 0.2,  # finite differences are coarse in single precision; our choice
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
