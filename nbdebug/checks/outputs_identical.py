"""The same output for every input."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import OutputResponse
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["outputs_identical"]


@check(explains=("inputs-ignored", "batch-not-memorised", "learns-without-inputs", "worse-than-baseline", "dead-units"))
def outputs_identical(outputs: OutputResponse, *, response: float = 1e-6) -> Iterator[Finding]:  # float32 resolution
    """The model gives the same output whatever it is given.

    nbdebug compares the outputs for one batch with those for other inputs, in eval mode and with the same random
    numbers, and follows what changes from module to module to the place behind which nothing does.

    Why it matters: a model whose outputs do not depend on the inputs can learn at most how often each answer occurs.

    What to try: look at the module named: units that are all dead or saturated, a multiplication by zero, a softmax
    over a dimension of length 1, or a variable of another name than the one that holds the data.
    """
    if not outputs.inputs_differ:
        raise NotApplicable("all inputs are alike, so nothing can be said about the outputs; see constant-inputs")
    if outputs.response > response:
        return
    if outputs.shaken:
        return  # a layer that begins at zero on purpose: after one step the outputs differ
    yield Finding(
        f"Other inputs change the outputs of {outputs.samples} samples by {outputs.response:.1g} of their size; all of "
        f"them are about {outputs.value:.4g}. What tells the samples apart is lost {outputs.place or 'in the model'}.",
        where=outputs.first or "model",
        evidence={
            "response": outputs.response,
            "value": outputs.value,
            "threshold": response,
            "source": "the resolution of float32",
        },
        remedies=(
            Remedy("Print what enters and leaves the module named for two different samples."),
            Remedy("If it is an activation, see whether all of its units are dead or saturated."),
        ),
    )
