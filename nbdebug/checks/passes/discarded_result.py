"""A result that is computed and thrown away, while the code goes on with the value as it was."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.experiments.discarded_results import Discarded

__all__ = ["discarded_result"]

SOURCE = "documentation of torch.Tensor: only methods that end in an underscore work in place"


@check(
    explains=("padding-dominates", "missing-nonlinearity", "inputs-ignored", "worse-than-baseline", "training-fails")
)
def discarded_result(
    structure: RecordedStructure,
    *,
    calls: int = 1,  # at least so many; a single one is enough, because code is not written to have no effect
) -> Iterator[Finding]:
    """The result of an operation is thrown away, or a residual sum adds a value to itself.

    nbdebug records one run and looks inside of modules for out-of-place operations (`masked_fill`, `scatter`, `relu`,
    `+`, …) whose result no operation reads and no module returns or keeps, although their operand is used again later.
    It also looks for `x + x` in a model that elsewhere adds two different values of that shape.

    Why it matters: `x.masked_fill(mask, 0)` changes nothing unless its result is assigned, and `x = f(x); x = x + x` is
    no residual connection. The code runs, and the mask, the activation or the connection does not exist.

    What to try: assign the result, `x = x.masked_fill(mask, 0)`, or use the in-place method; keep the input of a block
    to add it, `x = x + f(x)`.
    """
    for one in structure.discarded[:1]:
        if one.count >= calls:
            yield _finding(
                one,
                f"The result of `{one.op}` in `{one.module}` {one.shape} is never used: the code goes on with the "
                f"value as it was{_more(one)}.",
                Remedy("Assign the result, or work in place.", "x = x.masked_fill(mask, 0.0)"),
                calls,
            )
    for one in structure.doubled[:1]:
        if one.count >= calls:
            yield _finding(
                one,
                f"A sum in `{one.module}` {one.shape} adds a value to itself, while others add two values: the "
                f"residual connection does not exist{_more(one)}.",
                Remedy("Keep the input of the block to add it.", "x = x + self.attention(x)"),
                calls,
            )


def _more(one: Discarded) -> str:
    return f" ({one.count} such operations in one pass)" if one.count > 1 else ""


def _finding(one: Discarded, says: str, remedy: Remedy, threshold: int) -> Finding:
    return Finding(
        says,
        where=one.module,
        severity="suspect",
        evidence={
            "operation": one.op,
            "shape": one.shape,
            "operations of this kind": one.count,
            "threshold": threshold,
            "source": SOURCE,
        },
        remedies=(remedy,),
    )
