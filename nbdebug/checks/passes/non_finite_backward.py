"""A gradient is NaN or Inf although the forward pass is finite."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.finite_passes import FinitePasses

__all__ = ["non_finite_backward"]


@check(explains=("cannot-overfit-batch", "exploding-gradients", "update-ratio-off", "learning-rate-too-high"))
def non_finite_backward(passes: FinitePasses) -> Iterator[Finding]:
    """A gradient is NaN or Inf although the forward pass is finite.

    nbdebug runs several batches backward. When a parameter's gradient is not finite, it repeats the batch and inspects
    every node of the autograd graph: the first one that turns finite gradients into non-finite ones is named, with its
    source line and its forward values.

    Why it matters: one optimizer step with such a gradient makes the weights NaN, although every loss before looked
    right. The derivative of a square root, a norm or a power at 0 is infinite, and `torch.where` does not help: 0 times
    infinity is NaN.

    What to try: move the argument away from the singularity *before* the operation (`x.clamp_min(1e-8).sqrt()`), not
    after it; with `torch.where`, put a safe value into the branch that is not selected.
    """
    if passes.forward is not None:
        raise NotApplicable("the forward pass is already not finite; see non-finite-forward")
    if not passes.has_gradient:
        raise NotApplicable("the loss has no gradient")
    bad = passes.backward
    if bad is None:
        return
    place = f" in `{bad.where}` ({bad.module})" if bad.module else f" in `{bad.where}`" if bad.where else ""
    inputs = f" ({', '.join(bad.values)})" if bad.values else ""
    line = f", at {bad.source}" if bad.source else ""
    cause = f"The gradient of `{bad.operation}`{inputs} is {bad.kind}{place}{line}. " if bad.operation else ""
    yield Finding(
        f"{cause}The loss is finite, but {bad.reached} is not (batch {bad.batch}).",
        where=bad.where or "model",
        evidence={
            "operation": bad.operation,
            "values": list(bad.values),
            "source line": bad.source,
            "position": list(bad.position),
            "threshold": 0,
            "source": "gradients must be finite",
        },
        remedies=(
            Remedy(
                "Keep the argument away from the singularity.",
                "torch.sqrt(x.clamp_min(1e-8))",
                Patch("guard-operation", {"operation": "sqrt"}),
            ),
            Remedy(
                "Use a safe value in the unselected branch before the operation.",
                "safe = torch.where(ok, x, 1.0); y = torch.where(ok, safe.log(), 0.0)",
            ),
        ),
    )
