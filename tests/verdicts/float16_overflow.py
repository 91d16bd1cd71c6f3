"""Verdicts about outputs beyond the range of float16."""

from __future__ import annotations

from nbdebug.evidence.first_pass import FirstPass, LayerFacts
from nbdebug.experiments.tensor_stats import TensorFacts
from tests.verdicts.table import Table, minimal


def outputs(largest: float, dtype: str = "float32") -> FirstPass:
    """Return a pass in which the outputs of one layer reach so far down."""
    values = TensorFacts((4,), dtype, count=4, low=-largest, high=1.0)
    return minimal(FirstPass, layers=(minimal(LayerFacts, path="0", module="Linear", output=values),))


table = Table("float16-overflow")
table.row("of the size of normalized values", "silent", outputs(3.0))
table.row("float16 already, where it would be infinite", "silent", outputs(7e4, "float16"))
table.pair("largest", outputs, {6.6e4: "note", 6.5e4: "silent"})
