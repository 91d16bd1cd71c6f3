"""Pictures whose axes are mixed up."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FirstLayer, FirstWeights, ImageLayout
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["misread_image_layout"]

SOURCE = "37 reasons, 1; neighbours in a picture are alike"
PERMUTE = Remedy("Move the channels, do not reshape them.", "x = x.permute(0, 3, 1, 2)", Patch("reread-images"))


@check(explains=("worse-than-baseline", "destructive-augmentation"))
def misread_image_layout(
    first: FirstWeights,
    *,
    gain: float = 0.7,  # the other reading is smoother by a third at least …
    wins: float = 0.9,  # … in nine pictures of ten
    smooth: float = 0.9,  # neighbours are alike along an axis of a picture; channels have no such order
) -> Iterator[Finding]:
    """Height, width and channels of the pictures are mixed up.

    Neighbours in a picture are alike. nbdebug looks at the pictures as they arrive at the first convolution: whether
    the axis that is used for the channels is one along which neighbours are alike, with the channels at the end; and
    whether the same memory, read in another order, gives pictures that are smoother.

    Why it matters: a convolution over scrambled pixels sees noise. The shapes fit, so nothing fails, and the accuracy
    stays far below what the model can do.

    What to try: `permute` to bring channels to dimension 1; `view` and `reshape` never move data, they only cut the
    memory at other places.
    """
    looked = [(layer, layer.layout) for layer in first.layers if layer.layout is not None]
    if not looked:
        raise NotApplicable("no convolution over pictures is among the first layers")
    for layer, layout in looked:
        if layout.other and layout.gain < gain and layout.wins > wins:
            yield _reshaped(layer, layout, gain)
        elif _is_channel_last(layout, smooth, wins):
            yield _channel_last(layer, layout, smooth)


def _is_channel_last(layout: ImageLayout, smooth: float, wins: float) -> bool:
    first, second, last = layout.shape
    alike = max(layout.smooth[:2]) < smooth and min(layout.ordered[:2]) > wins
    even = 0.5 < layout.smooth[0] / max(layout.smooth[1], 1e-9) < 2
    return last <= 4 and min(first, second) >= 8 and max(first, second) <= 4 * min(first, second) and alike and even


def _channel_last(layer: FirstLayer, layout: ImageLayout, smooth: float) -> Finding:
    return Finding(
        f"{layer.path} ({layer.module}) takes dimension 1 of {layout.shape} for the channels, but neighbours along it "
        f"are alike in {layout.ordered[0]:.0%} of {layout.pictures} pictures, as along a picture's side: the channels "
        f"are last.",
        where=layer.path,
        severity="bug" if layout.shape[2] in (3, 4) else "suspect",
        evidence={"shape": layout.shape, "roughness by axis": layout.smooth, "threshold": smooth, "source": SOURCE},
        remedies=(PERMUTE,),
        exhibit=Bars(("dimension 1", "dimension 2"), layout.smooth[:2], title="Neighbours against any two places"),
    )


def _reshaped(layer: FirstLayer, layout: ImageLayout, gain: float) -> Finding:
    return Finding(
        f"The pictures of {layout.shape} that arrive at {layer.path} ({layer.module}) are scrambled: read as "
        f"{layout.other}, the same values are {1 / max(layout.gain, 1e-9):.1f} times smoother in {layout.wins:.0%} of "
        f"{layout.pictures} pictures.",
        where=layer.path,
        evidence={
            "shape": layout.shape,
            "roughness, other reading to this": layout.gain,
            "pictures": layout.pictures,
            "threshold": gain,
            "source": SOURCE,
        },
        remedies=(PERMUTE,),
        exhibit=Bars(("as it is read", layout.other), (1.0, layout.gain), title="Roughness"),
    )
