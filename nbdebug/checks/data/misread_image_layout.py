"""Image dimensions are in the wrong order."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_layer_inputs import FirstLayer, FirstWeights
from nbdebug.evidence.image_layout import ImageLayout

__all__ = ["misread_image_layout"]

SOURCE = "37 reasons, 1; neighboring pixels are correlated"
PERMUTE = Remedy("Permute the channels to dim 1; do not reshape.", "x = x.permute(0, 3, 1, 2)", Patch("reread-images"))


@check(explains=("worse-than-baseline", "destructive-augmentation"))
def misread_image_layout(
    first: FirstWeights,
    *,
    gain: float = 0.7,  # the other layout is smoother by a third at least; our choice, …
    wins: float = 0.9,  # … in nine images out of ten; our choice
    noisy: float = 0.92,  # or smoother by less, as noisy images are, but along both sides …
    always: float = 0.95,  # … and in nearly all of them …
    pictures: int = 32,  # … which are this many; our choice
    smooth: float = 0.9,  # neighbors are correlated along a spatial dimension; channels are not ordered; our choice
    even: float = 2.0,  # roughness of height over width, either way; our choice
    channels: int = 4,  # at most; images have 1, 3 or 4 (RGBA)
    side: int = 8,  # pixels, at least; our choice
    aspect: float = 4.0,  # longer side over shorter one, at most; our choice
) -> Iterator[Finding]:
    """Height, width and channels of the images are in the wrong order.

    Neighboring pixels are correlated. nbdebug inspects the images that reach the first convolution: whether the channel
    dimension is as smooth as a spatial one while the channels are last, and whether the same memory read in another
    layout gives smoother images.

    Why it matters: a convolution over scrambled pixels sees noise. The shapes match, so nothing fails, and the accuracy
    stays far below what the model can reach.

    What to try: use `permute` to move the channels to dim 1; `view` and `reshape` never move data, they only
    reinterpret the memory.
    """
    looked = [(layer, layer.layout) for layer in first.layers if layer.layout is not None]
    if not looked:
        raise NotApplicable("no 2d convolution is among the first layers")
    for layer, layout in looked:
        noise = layout.pictures >= pictures and max(layout.gain, layout.sides - 0.03) < noisy and layout.wins > always
        if layout.other and (noise or (layout.gain < gain and layout.wins > wins)):
            yield _reshaped(layer, layout, noisy if noise else gain)
        elif _has_sides(layout, channels, side, aspect) and _is_channel_last(layout, smooth, wins, even):
            yield _channel_last(layer, layout, smooth)


def _is_channel_last(layout: ImageLayout, smooth: float, wins: float, even: float) -> bool:
    """Return whether dims 1 and 2 look spatial while the last dim is small enough for channels."""
    alike = max(layout.smooth[:2]) < smooth and min(layout.ordered[:2]) > wins
    is_even = 1 / even < layout.smooth[0] / max(layout.smooth[1], 1e-9) < even
    return alike and is_even


def _has_sides(layout: ImageLayout, channels: int, side: int, aspect: float) -> bool:
    """Return whether the first two axes may be those of a picture, and the last one its channels."""
    low, high = sorted(layout.shape[:2])
    return layout.shape[2] <= channels and low >= side and high <= aspect * low


def _channel_last(layer: FirstLayer, layout: ImageLayout, smooth: float) -> Finding:
    return Finding(
        f"The images {layout.shape} that reach `{layer.path}` ({layer.module}) are channels-last: dim 1 is as smooth "
        f"as a spatial dimension in {layout.ordered[0]:.0%} of {layout.pictures} images.",
        where=layer.path,
        severity="bug" if layout.shape[2] in (3, 4) else "suspect",
        evidence={"shape": layout.shape, "roughness by axis": layout.smooth, "threshold": smooth, "source": SOURCE},
        remedies=(PERMUTE,),
        exhibit=Bars(("dim 1", "dim 2"), layout.smooth[:2], title="Neighbor difference / random pair difference"),
    )


def _reshaped(layer: FirstLayer, layout: ImageLayout, gain: float) -> Finding:
    return Finding(
        f"The images {layout.shape} that reach `{layer.path}` ({layer.module}) are scrambled: read as {layout.other}, "
        f"they are {1 / max(layout.gain, 1e-9):.1f} times smoother ({layout.wins:.0%} of {layout.pictures} images).",
        where=layer.path,
        evidence={
            "shape": layout.shape,
            "roughness, other reading to this": layout.gain,
            "pictures": layout.pictures,
            "threshold": gain,
            "source": SOURCE,
        },
        remedies=(PERMUTE,),
        exhibit=Bars(("current layout", layout.other), (1.0, layout.gain), title="Roughness"),
    )
