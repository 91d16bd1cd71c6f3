"""A NaN or an infinity that the forward pass makes."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FinitePasses, NonFinite
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["non_finite_forward"]

_CURES = {
    "log": Remedy(
        "Keep the argument of the logarithm away from zero.",
        "torch.log(p.clamp_min(1e-8))",
        Patch("guard-operation", {"operation": "log"}),
    ),
    "div": Remedy("Keep the divisor away from zero.", "a / (b + 1e-8)", Patch("guard-operation", {"operation": "div"})),
    "sqrt": Remedy(
        "Keep the argument of the root positive.",
        "torch.sqrt(x.clamp_min(0) + 1e-8)",
        Patch("guard-operation", {"operation": "sqrt"}),
    ),
    "exp": Remedy("Subtract the maximum first, or use a function that does.", "torch.softmax(x, dim=-1)"),
    "softmax": Remedy("A row that is masked everywhere has no softmax: leave one entry, or use a finite mask.", ""),
    "parameter": Remedy(
        "Initialise the parameter: torch.empty leaves whatever was in memory.",
        "nn.init.normal_(w)",
        Patch("reinitialise"),
    ),
    "std": Remedy(
        "The spread of one value is NaN: ask for it with correction=0.",
        "x.std(correction=0)",
        Patch("uncorrected-spread"),
    ),
}


@check(
    explains=(
        "initial-loss-off",
        "batch-not-memorised",
        "train-eval-gap",
        "outputs-identical",
        "learning-rate-too-high",
    )
)
def non_finite_forward(passes: FinitePasses) -> Iterator[Finding]:
    """The forward pass makes a NaN or an infinity out of finite numbers.

    nbdebug runs several batches in both modes. When the loss is not finite it runs the batch again with every operation
    watched, and follows the bad value back to the first operation that made it. Infinities that are written down, as
    in an attention mask, are no illness.

    Why it matters: one NaN in the loss makes every gradient NaN, and after one step every weight.

    What to try: look at the line named; keep logarithms, roots and divisors away from zero, exponentials away from
    large numbers, and rows of a softmax from being masked entirely.
    """
    if passes.forward is not None:
        yield Finding(
            f"{_what(passes.forward)}{_line(passes.forward)}. It reaches {passes.forward.reached} in batch "
            f"{passes.forward.batch} in {passes.forward.mode} mode.",
            where=passes.forward.where or "model",
            evidence=_evidence(passes.forward, passes.batches),
            remedies=tuple(cure for name, cure in _CURES.items() if name in passes.forward.operation),
        )
        return
    if passes.bad_inputs:
        raise NotApplicable("the NaN of the loss comes from the inputs; see non-finite-inputs")
    if passes.quiet is not None:
        yield Finding(
            f"{_what(passes.quiet)}{_line(passes.quiet)}. Neither the loss nor a gradient takes harm.",
            where=passes.quiet.where or "model",
            severity="note",
            evidence=_evidence(passes.quiet, passes.batches),
        )


def _what(bad: NonFinite) -> str:
    """Say what made the bad value, from which numbers, and where."""
    place = f"{bad.where} ({bad.module})" if bad.module else bad.where
    if bad.operation in ("parameter", "buffer", "input"):
        return f"The {bad.operation} {bad.where} holds {bad.kind} from the beginning"
    if not bad.operation:
        return "The loss is not finite, and the operation that made it so cannot be watched"
    numbers = " and ".join(bad.values)
    given = f" of {numbers}" if numbers else ""
    narrow = f" in {bad.dtype}" if bad.dtype in ("float16", "bfloat16") else ""
    sample = f", first at {list(bad.position)} of its result" if bad.position else ""
    return f"`{bad.operation}`{given} gives {bad.kind}{narrow} in {place}{sample}"


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
        "source": "no loss that is to be learned from may be NaN or infinite",
    }
