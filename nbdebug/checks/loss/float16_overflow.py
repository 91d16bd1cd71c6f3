"""Layer outputs beyond the range of float16."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.first_pass import FirstPass

__all__ = ["float16_overflow"]

SHOWN = 12


@check
def float16_overflow(
    first: FirstPass,
    *,
    largest: float = 65504.0,  # the largest number of float16, torch.finfo(torch.float16).max; PyTorch docs
) -> Iterator[Finding]:
    """Outputs of a layer are too large for float16, so that mixed precision makes them infinite.

    nbdebug runs one batch in the precision of your model and compares the largest output of each layer with the largest
    number that float16 holds.

    Why it matters: training in float32 runs. Under `torch.autocast` with float16 the same layers give Inf, the loss
    becomes NaN, and a GradScaler skips every step: it scales gradients and cannot help the forward pass.

    What to try: normalize the inputs, or add a normalization before the layer; use bfloat16, which has the range of
    float32.
    """
    layers = [one for one in first.layers if one.output.count and one.output.dtype != "float16"]
    beyond = [one for one in layers if one.output.biggest > largest]
    if not beyond:
        return
    place = beyond[0]
    yield Finding(
        f"The outputs of `{place.path}` ({place.module}) reach {place.output.biggest:.3g}; float16 ends at "
        f"{largest:,.0f} and would overflow.",
        where=place.path,
        severity="note",
        evidence={
            "largest output": place.output.biggest,
            "layers": [one.path for one in beyond[:SHOWN]],
            "threshold": largest,
            "source": "torch.finfo(torch.float16).max",
        },
        remedies=(
            Remedy("Normalize the inputs of the layer.", "nn.LayerNorm(width)"),
            Remedy(
                "Use bfloat16 for mixed precision.",
                "with torch.autocast(device, torch.bfloat16):\n    loss = loss_fn(model(x), y)",
            ),
        ),
        exhibit=Bars(
            tuple(one.path for one in layers[:SHOWN]),
            tuple(one.output.biggest for one in layers[:SHOWN]),
            "Largest output",
            "absolute value",
        ),
    )
