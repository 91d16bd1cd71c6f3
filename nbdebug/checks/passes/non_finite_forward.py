"""The forward pass produces NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.finite_passes import FinitePasses, NonFinite

__all__ = ["non_finite_forward"]

_FIXES = {
    "log": Remedy(
        "Keep the argument of `log` away from zero.",
        "torch.log(p.clamp_min(1e-8))",
        Patch("guard-operation", {"operation": "log"}),
    ),
    "div": Remedy("Keep the divisor away from zero.", "a / (b + 1e-8)", Patch("guard-operation", {"operation": "div"})),
    "sqrt": Remedy(
        "Keep the argument of `sqrt` positive.",
        "torch.sqrt(x.clamp_min(0) + 1e-8)",
        Patch("guard-operation", {"operation": "sqrt"}),
    ),
    "exp": Remedy("Subtract the maximum first, or use a numerically stable function.", "torch.softmax(x, dim=-1)"),
    "softmax": Remedy("Leave at least one unmasked entry in every softmax row, or use a finite mask value.", ""),
    "parameter": Remedy(
        "Initialize the parameter: `torch.empty` returns uninitialized memory.",
        "nn.init.normal_(w)",
        Patch("reinitialize"),
    ),
    "std": Remedy(
        "Use `correction=0`: the standard deviation of a single value is NaN.",
        "x.std(correction=0)",
        Patch("uncorrected-spread"),
    ),
}


@check(
    explains=(
        "initial-loss-off",
        "cannot-overfit-batch",
        "train-eval-gap",
        "outputs-identical",
        "learning-rate-too-high",
    )
)
def non_finite_forward(passes: FinitePasses) -> Iterator[Finding]:
    """The forward pass produces NaN or Inf from finite values.

    nbdebug runs several batches in training and eval mode. When the loss is not finite, it repeats the batch, inspects
    every operation, and traces the non-finite value back to the operation that produced it first. Infinities on
    purpose, as in an attention mask, are not reported.

    Why it matters: one NaN in the loss makes every gradient NaN, and after one step every weight.

    What to try: check the line named; keep logarithms, square roots and divisors away from zero, exponentials away from
    large arguments, and avoid softmax rows that are completely masked.
    """
    if passes.forward is not None:
        yield Finding(
            f"{_what(passes.forward)}{_line(passes.forward)}. It makes {passes.forward.reached} non-finite in batch "
            f"{passes.forward.batch} ({passes.forward.mode} mode).",
            where=passes.forward.where or "model",
            evidence=_evidence(passes.forward, passes.batches),
            remedies=tuple(fix for name, fix in _FIXES.items() if name in passes.forward.operation),
        )
        return
    if passes.bad_inputs:
        raise NotApplicable("the NaN in the loss comes from the inputs; see non-finite-inputs")
    if passes.quiet is not None:
        yield Finding(
            f"{_what(passes.quiet)}{_line(passes.quiet)}. The loss and the gradients stay finite.",
            where=passes.quiet.where or "model",
            severity="note",
            evidence=_evidence(passes.quiet, passes.batches),
        )


def _what(bad: NonFinite) -> str:
    """Describe the operation that produced the non-finite value, its inputs and its place."""
    place = f"`{bad.where}` ({bad.module})" if bad.module else f"`{bad.where}`"
    if bad.operation in ("parameter", "buffer", "input"):
        return f"The {bad.operation} `{bad.where}` already contains {bad.kind} before the forward pass"
    if not bad.operation:
        return "The loss is not finite, and the operation that caused it could not be traced"
    numbers = " and ".join(bad.values)
    argument = f" of {numbers}" if numbers else ""
    narrow = f" in {bad.dtype}" if bad.dtype in ("float16", "bfloat16") else ""
    index = f", first at index {list(bad.position)}" if bad.position else ""
    return f"`{bad.operation}`{argument} returns {bad.kind}{narrow} in {place}{index}"


def _line(bad: NonFinite) -> str:
    return f", at {bad.source}" if bad.source else ""


def _evidence(bad: NonFinite, batches: int) -> dict[str, object]:
    return {
        "operation": bad.operation,
        "values": list(bad.values),
        "source line": bad.source,
        "position": list(bad.position),
        "batches looked at": batches,
        "threshold": 0,
        "source": "the loss must be finite",
    }
