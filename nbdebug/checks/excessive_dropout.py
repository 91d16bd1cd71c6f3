"""Dropout that removes almost everything."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import DropoutShares
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["excessive_dropout"]


@check(explains=("batch-not-memorised", "train-eval-gap"))
def excessive_dropout(
    dropped: DropoutShares,
    *,
    share: float = 0.78,  # p of 0.8 and more; Srivastava et al. 2014 use 0.2 for inputs and 0.5 for hidden layers
    nearly_all: float = 0.93,
) -> Iterator[Finding]:
    """Dropout zeroes almost all values of a layer in training mode.

    nbdebug runs the same batch in training and in eval mode and counts, at every module, the values that only training
    mode sets to zero. It makes no difference whether dropout is a module or a function.

    Why it matters: with nine of ten values dropped, later layers see a different network at every step, and the
    signal is lost in noise. The keep probability may have been passed where the drop probability belongs.

    What to try: use 0.1 to 0.5; nn.Dropout(p) drops with probability p.
    """
    told: set[str] = set()
    for place in dropped.places:
        sure = place.share >= share and place.share - 3 * place.error > share - 0.03
        if not sure or not place.is_source or place.path in told:
            continue
        told.add(place.path)  # once, however often the module is called
        yield Finding(
            f"Dropout zeroes {place.share:.0%} of the values at `{place.path}` in training mode.",
            where=place.path,
            severity="bug" if place.share > nearly_all else "suspect",
            evidence={
                "dropped": place.share,
                "error": place.error,
                "threshold": share,
                "source": "37 reasons, 30; Srivastava et al. 2014",
            },
            remedies=(Remedy("Lower the drop rate.", "nn.Dropout(0.3)", Patch("limit-dropout", {"share": 0.3})),),
            exhibit=Bars(
                tuple(p.path for p in dropped.places), tuple(p.share for p in dropped.places), band=(0.0, 0.5)
            ),
        )
