"""A gradient that is born NaN or infinite behind a clean forward pass."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FinitePasses
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["non_finite_backward"]


@check(explains=("batch-not-memorised", "exploding-gradients", "update-ratio-off", "learning-rate-too-high"))
def non_finite_backward(passes: FinitePasses) -> Iterator[Finding]:
    """A gradient is NaN or infinite although the forward pass is clean.

    nbdebug runs several batches backward. When a parameter's gradient is not finite it runs the batch again and watches
    every node of the graph: the first one that makes a bad gradient out of finite ones is named, with the line that
    made it and the values of the forward pass there.

    Why it matters: one step with such a gradient makes the weights NaN, though every loss before looked right. The
    slope of a root, a norm or a power at 0 is infinite, and `torch.where` does not help: 0 times infinity is NaN.

    What to try: move the argument away from the bad point *before* the operation (x.clamp_min(1e-8).sqrt()), not after
    it; with torch.where, put a harmless value into the branch that is not taken.
    """
    if passes.forward is not None:
        raise NotApplicable("the forward pass is not finite already; see non-finite-forward")
    if not passes.has_gradient:
        raise NotApplicable("the loss has no gradient")
    bad = passes.backward
    if bad is None:
        return
    place = f" in {bad.where} ({bad.module})" if bad.module else f" in {bad.where}" if bad.where else ""
    met = f" where {' and '.join(bad.values)}" if bad.values else ""
    line = f", at {bad.source}" if bad.source else ""
    born = f"The slope of `{bad.operation}`{met} is {bad.kind}{place}{line}." if bad.operation else ""
    yield Finding(
        f"{born} It reaches {bad.reached} in batch {bad.batch}, although the loss is finite.".strip(),
        where=bad.where or "model",
        evidence={
            "operation": bad.operation,
            "values": list(bad.values),
            "source line": bad.source,
            "position": list(bad.position),
            "threshold": 0,
            "source": "a gradient has to be finite to be followed",
        },
        remedies=(
            Remedy(
                "Keep the argument away from the point without a slope.",
                "torch.sqrt(x.clamp_min(1e-8))",
                Patch("guard-operation", {"operation": "sqrt"}),
            ),
            Remedy(
                "Make the branch that is not taken harmless before the operation.",
                "safe = torch.where(ok, x, 1.0); y = torch.where(ok, safe.log(), 0.0)",
            ),
        ),
    )
