"""A layer too small for the answer."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import InformationCuts
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy, in_code
from nbdebug.registry import check

__all__ = ["bottleneck_too_narrow"]


@check(explains=("batch-not-memorised", "worse-than-baseline"))
def bottleneck_too_narrow(
    cuts: InformationCuts,
    *,
    quality: float = 0.9,  # of one small batch; Full Stack Deep Learning: a sound model learns one by heart
    single: float = 2.0,  # bits, or four classes: more do not stand in one row for a training to find
) -> Iterator[Finding]:
    """Everything has to pass through a layer that is too narrow to carry the answer.

    nbdebug exchanges the output of narrow layers between samples. Where the answers are exchanged with it, everything
    the answer depends on flows through that layer. Then a copy is trained on one small batch, to see whether that is
    enough.

    Why it matters: what a narrow layer loses no later layer can bring back. One number cannot tell ten classes apart in
    any way that training would find.

    What to try: make the layer named wider, at least as wide as the number of classes, or lead a connection past it.
    Autoencoders and embeddings to look at are narrow on purpose.
    """
    for cut in sorted(cuts.cuts, key=lambda cut: cut.width)[:1]:
        in_a_row = cuts.task == "classification" and cut.width == 1 and cut.needed > single
        enough = (cuts.quality is None or cuts.quality >= quality) and not in_a_row
        learned = (
            f" A copy trained on {cuts.samples} samples comes to {cuts.quality:.0%} {cuts.measure}."
            if cuts.quality is not None
            else ""
        )
        yield Finding(
            f"Everything passes through {cut.path}, which gives {cut.width} number{'s' * (cut.width > 1)} for "
            f"{cut.reason}.{learned}",
            where=cut.path,
            severity="note" if enough or cuts.task == "reconstruction" else "suspect",
            evidence={
                "width": cut.width,
                "needed": cut.needed,
                "quality on one batch": cuts.quality if cuts.quality is not None else "not measured",
                "threshold": quality,
                "source": "37 reasons, 24; the logarithm of the number of classes, and what a short training reaches",
            },
            remedies=(Remedy("Widen it.", f"{in_code(cut.path, 'self')} = nn.Linear(…, {max(16, 4 * cut.width)})"),),
            exhibit=Bars(("width", "needed"), (float(cut.width), cut.needed), title=cut.path),
        )
