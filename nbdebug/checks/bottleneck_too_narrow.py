"""A layer too narrow for the prediction task."""

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
    quality: float = 0.9,  # on one small batch; Full Stack Deep Learning: a correct model overfits one
    single: float = 2.0,  # bits, or four classes: training does not separate more along one axis
) -> Iterator[Finding]:
    """All information passes through a layer that is too narrow for the targets.

    nbdebug permutes the output of narrow layers across samples. Where the predictions are permuted with it, they depend
    on that layer alone. Then a copy is trained on one small batch, to see whether its width is enough.

    Why it matters: later layers cannot recover what a narrow layer discards. A single value cannot separate ten classes
    in a way that gradient descent finds.

    What to try: make the layer named wider, at least as wide as the number of classes, or add a skip connection around
    it. Autoencoders and embeddings for visualization are narrow on purpose.
    """
    for cut in sorted(cuts.cuts, key=lambda cut: cut.width)[:1]:
        on_one_axis = cuts.task == "classification" and cut.width == 1 and cut.needed > single
        enough = (cuts.quality is None or cuts.quality >= quality) and not on_one_axis
        learned = (
            f" A copy trained on {cuts.samples} samples reaches {cuts.quality:.0%} {cuts.measure}."
            if cuts.quality is not None
            else ""
        )
        yield Finding(
            f"All information passes through `{cut.path}`, which outputs {cut.width} value{'s' * (cut.width > 1)} for "
            f"{cut.reason}.{learned}",
            where=cut.path,
            severity="note" if enough or cuts.task == "reconstruction" else "suspect",
            evidence={
                "width": cut.width,
                "needed": cut.needed,
                "quality on one batch": cuts.quality if cuts.quality is not None else "not measured",
                "threshold": quality,
                "source": "37 reasons, 24; log2 of the number of classes, and the result of a short training run",
            },
            remedies=(
                Remedy(
                    "Make the layer wider.", f"{in_code(cut.path, 'self')} = nn.Linear(…, {max(16, 4 * cut.width)})"
                ),
            ),
            exhibit=Bars(("width", "required"), (float(cut.width), cut.needed), title=cut.path),
        )
