"""The model gives the same output for every input."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import OutputResponse
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["outputs_identical"]


@check(explains=("inputs-ignored", "batch-not-memorised", "learns-without-inputs", "worse-than-baseline", "dead-units"))
def outputs_identical(outputs: OutputResponse, *, response: float = 1e-6) -> Iterator[Finding]:  # float32 resolution
    """The model gives the same output for every input.

    nbdebug compares the outputs for one batch with those for other inputs, in eval mode and with the same RNG state,
    and finds the module after which the inputs no longer make a difference.

    Why it matters: a model whose outputs do not depend on the inputs can learn at most the class frequencies or the
    target mean.

    What to try: inspect the module named: units that are all dead or saturated, a multiplication by zero, a softmax
    over a dimension of size 1, or a variable that does not hold the data.
    """
    if not outputs.inputs_differ:
        raise NotApplicable("all inputs are identical; see constant-inputs")
    if outputs.response > response:
        return
    if outputs.shaken:
        return  # zero-initialized on purpose: after one step the outputs differ
    yield Finding(
        f"The outputs of {outputs.samples} samples are all about {outputs.value:.4g}, whatever the input (relative "
        f"change {outputs.response:.1g}). The signal is lost {outputs.place or 'in the model'}.",
        where=outputs.first or "model",
        evidence={
            "response": outputs.response,
            "value": outputs.value,
            "threshold": response,
            "source": "float32 precision",
        },
        remedies=(
            Remedy("Print the inputs and outputs of this module for two different samples."),
            Remedy("If it is an activation, check whether all its units are dead or saturated."),
        ),
    )
