"""Every kind of exhibit is drawn, whatever its numbers are."""

import io
import math
import re
import subprocess
import sys
import warnings
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Images, Lines, Panels, Table
from nbdebug.charts.draw import as_png, as_svg
from nbdebug.charts.static.bars import bar_scale
from nbdebug.charts.static.scales import scale_over
from nbdebug.charts.static.sheet import width_of
from nbdebug.charts.thinning import thinned
from tests.report.hostile import exhibits
from tests.report.payloads import PAYLOADS
from tests.report.samples import bars, histograms, images, lines, table

NAN, INF = float("nan"), float("inf")
ODD = {
    "panels": Panels((("good", (0.0, 9.0), (0.1, 0.9)), ("bad, with a long name of its own", (0.0,), (0.1,)))),
    "panels of nothing": Panels((("good", (), ()), ("bad", (0.0, 1.0), (NAN, NAN)))),
    "many panels": Panels(tuple((f"run {n}", (0.0, 1.0), (0.0, float(n))) for n in range(20)), "Many"),
    "all NaN": Bars(("a", "b"), (NAN, NAN), band=(0.0, 1.0)),
    "infinite": Bars(("a", "b"), (INF, -INF)),
    "zeros": Bars(("a", "b"), (0.0, 0.0), log=True),
    "negative": Bars(("a", "b"), (-3.0, 2.0)),
    "all negative": Bars(("a", "b"), (-3.0, -2.0)),
    "negative logarithmic": Bars(("a", "b"), (-3.0, 0.01), log=True),
    "huge": Bars(("a", "b"), (1e308, -1e308)),
    "tiny": Bars(("a",), (1e-320,), log=True),
    "band only": Bars(("a",), (0.0,), band=(1e-3, INF), log=True),
    "no labels": Bars((), (1.0, 2.0)),
    "numpy": Bars(("a",), (np.float32(2.5),)),
    "one point": Lines((("a", (0.0,), (1.0,)),)),
    "constant": Lines((("a", (0.0, 1.0), (3.0, 3.0)),)),
    "no finite value": Lines((("a", (0.0, 1.0), (NAN, INF)),), log_y=True),
    "logarithmic with zeros": Lines((("a", (0.0, 1.0, 2.0), (0.0, 1e-9, 10.0)),), log_x=True, log_y=True),
    "empty curve": Lines((("a", (), ()),)),
    "unequal": Lines((("a", (0.0, 1.0, 2.0), (1.0,)),)),
    "fifty curves": Lines(tuple((f"curve {i}", (0.0, 1.0), (float(i), 1.0)) for i in range(50))),
    "huge curve": Lines((("a", (0.0, 1.0), (-1.7e308, 1.7e308)),)),
    "empty histogram": HistogramGrid(("a",), (0.0, 1.0), ((0.0,),)),
    "unequal histograms": HistogramGrid(("a", "b"), (0.0, 1.0, 2.0), ((1.0,), (1.0, NAN))),
    "color": Images((np.zeros((4, 6, 3), np.uint8), np.zeros((4, 6, 1), np.uint8), np.zeros((2, 2)))),
    "no pixels": Images((np.zeros((0, 0), np.uint8),)),
    "many pictures": Images((np.zeros((4, 4), np.uint8),) * 40, ("x",) * 40),
}


def words(svg: str) -> list[str]:
    return [element.text or "" for element in texts_of(svg)]


def texts_of(svg: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def size(png: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(png)) as picture:
        picture.load()
        return picture.size


@pytest.mark.parametrize("exhibit", [bars(), lines(), histograms(), histograms(5), images()], ids=lambda e: e.kind)
def test_each_kind_is_drawn_in_both_forms_and_always_alike(exhibit: Exhibit) -> None:
    svg, png = as_svg(exhibit, "what it shows"), as_png(exhibit)
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-label") == "what it shows"
    assert exhibit.title in words(svg)  # type: ignore[attr-defined]
    assert size(png)[0] == 840
    assert as_svg(exhibit, "what it shows") == svg and as_png(exhibit) == png
    assert len(svg) < 60_000 and len(png) < 80_000


@pytest.mark.parametrize("name", ODD)
def test_odd_numbers_are_drawn(name: str) -> None:
    svg = as_svg(ODD[name], "x")
    assert "nan" not in svg.replace("NaN", "") and "inf" not in svg.replace("infinite", "").replace("infty", "")
    assert size(as_png(ODD[name]))[1] > 20


@pytest.mark.parametrize(
    "exhibit", [Bars((), ()), Lines(()), Panels(()), HistogramGrid((), (), ()), Images(()), table()]
)
def test_what_has_no_picture_gives_none(exhibit: Exhibit) -> None:
    assert as_svg(exhibit, "x") == "" and as_png(exhibit) == b""
    assert isinstance(exhibit, Table) or not any(getattr(exhibit, n, ()) for n in ("values", "series", "counts"))


def test_a_hundred_bars_are_cut_and_the_odd_ones_stay() -> None:
    said = words(as_svg(bars(), "x"))
    assert "NaN" in said
    assert any(text.startswith("… and 68 more, between ") for text in said)
    assert "normal range: 0.001 to 10" in said
    assert "encoder.layers.24.out" in said  # the smallest
    values = tuple(1.0 if i != 50 else 1e6 for i in range(100))
    assert "layer 50" in words(as_svg(Bars(tuple(f"layer {i}" for i in range(100)), values), "x"))


def test_a_hole_in_a_curve_is_marked() -> None:
    svg = as_svg(lines(), "x")
    assert "non-finite (NaN or Inf)" in words(svg)
    assert "non-finite (NaN or Inf)" not in words(as_svg(ODD["constant"], "x"))


@pytest.mark.parametrize("value", [0.001, 1.0, 12345.678, -3.21e-7])
def test_labels_of_ticks_have_room(value: float) -> None:
    """A constant curve has ticks of many digits: none begins left of the sheet, nor touches the name of the axis."""
    texts = texts_of(as_svg(Lines.of_steps("rate", (0.0, 50.0), (value, value), "Learning rate"), "x"))
    ticks = [text for text in texts if text.get("text-anchor") == "end"]
    name = next(text for text in texts if text.text == "rate")
    assert len(ticks) > 2
    assert all(float(t.get("x", 0)) - width_of(t.text or "", float(t.get("font-size", "0px")[:-2])) >= 0 for t in ticks)
    assert all(float(t.get("y", 0)) - 10.5 >= float(name.get("y", 0)) for t in ticks)


@pytest.mark.parametrize("exhibit", [bars(), histograms(), histograms(5)], ids=["bars", "heat map", "ridges"])
def test_names_at_the_left_are_not_cut_off(exhibit: Exhibit) -> None:
    for text in texts_of(as_svg(exhibit, "x")):
        if text.get("text-anchor") == "end":
            assert float(text.get("x", 0)) >= width_of(text.text or "", float(text.get("font-size", "0px")[:-2]))


def test_curves_of_one_color_differ_in_their_dashes() -> None:
    paths = [e for e in ElementTree.fromstring(as_svg(ODD["fifty curves"], "x")).iter() if e.tag.endswith("path")]
    samples = [e.get("style", "") for e in paths if "stroke-width: 1.8" in e.get("style", "")]
    assert len(set(samples)) == 10  # of the ten that are drawn


def test_thinning_keeps_the_spikes() -> None:
    x, y = np.arange(100_000.0), np.sin(np.arange(100_000.0))
    y[777], y[90_001], y[50_000:60_000] = 99.0, -99.0, NAN
    few_x, few_y = thinned(x, y, 2000)
    assert len(few_x) <= 2000
    assert np.nanmax(few_y) == 99 and np.nanmin(few_y) == -99
    assert np.isnan(few_y).any() and (np.diff(few_x) > 0).all()
    assert few_x[0] == 0 and few_x[-1] == 99_999


@pytest.mark.parametrize("values", [(0, 1), (-3, 8), (1e-9, 2e-9), (1e5, 1e9), (5, 5), (0,), (-1e308, 1e308)])
def test_ticks_are_few_and_in_order(values: tuple[float, ...]) -> None:
    for log in (False, True):
        ticks = scale_over(values, log=log).ticks()
        assert 1 <= len(ticks) <= 13
        assert all(a < b for a, b in pairwise(ticks)) and all(map(math.isfinite, ticks))


@pytest.mark.parametrize("text", PAYLOADS[::4])
def test_hostile_labels_stay_words(text: str) -> None:
    for exhibit in exhibits(text):
        svg = as_svg(exhibit, text)
        if svg:
            tags = {element.tag.split("}")[1] for element in ElementTree.fromstring(svg).iter()}
            assert tags <= {"svg", "rect", "path", "text", "image"}
        as_png(exhibit)


@pytest.mark.parametrize("text", ["$x^2$", r"$\frac{1}{2$", "50$ and 60$", r"\alpha", "日本語 \U0001f600"])
def test_labels_are_not_parsed_as_formulas(text: str) -> None:
    """Dollar signs, even of no valid formula, are shown as they are; a font that lacks a character is silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for exhibit in exhibits(text)[:3]:
            assert text in words(as_svg(exhibit, "x"))
            assert as_png(exhibit)


STYLES = {
    "text.usetex": True,
    "font.size": 40.0,
    "font.family": ["no such font"],
    "path.sketch": (1.0, 100.0, 2.0),
    "axes.facecolor": "black",
    "svg.fonttype": "path",
    "svg.image_inline": False,
    "figure.autolayout": True,
}


@pytest.mark.parametrize("exhibit", [bars(), lines(), histograms()], ids=lambda e: e.kind)
def test_the_style_of_the_user_neither_changes_nor_matters(exhibit: Exhibit) -> None:
    import matplotlib

    from nbdebug.charts import draw

    before = as_svg(exhibit, "x"), as_png(exhibit)
    draw.forget()
    with matplotlib.rc_context(STYLES):
        theirs = dict(matplotlib.rcParams)
        assert (as_svg(exhibit, "x"), as_png(exhibit)) == before
        assert dict(matplotlib.rcParams) == theirs


def test_settings_that_another_thread_changes_meanwhile_stay() -> None:
    import matplotlib

    from nbdebug.charts.static.render import own_settings

    with matplotlib.rc_context({"font.size": 40.0}):
        with own_settings():
            assert matplotlib.rcParams["font.size"] == 10.0
            matplotlib.rcParams["lines.linewidth"] = 7.0
        assert (matplotlib.rcParams["font.size"], matplotlib.rcParams["lines.linewidth"]) == (40.0, 7.0)


def test_charts_of_a_page_share_no_name_and_refer_to_nothing() -> None:
    for exhibit in (bars(), lines(), histograms(), histograms(5), images()):
        svg = as_svg(exhibit, "x")
        assert not re.search(r"\bid=|url\(|<style|<defs|<use|<script|xlink", svg)


def test_drawing_meets_no_pyplot() -> None:
    """And is loaded by the first picture, not by the module."""
    code = (
        "import sys; sys.path.insert(0, '.'); from tests.report.samples import bars, lines;"
        "from nbdebug.charts.draw import as_png, as_svg; assert 'matplotlib' not in sys.modules;"
        "as_png(bars()); as_svg(lines(), 'x');"
        "assert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_logarithmic_scale_needs_two_positive_bars() -> None:
    """One bar beside a 0 is measured from 0: a logarithmic axis would begin anywhere."""
    assert not bar_scale([0.197, 0.0], Bars(("a", "b"), (0.197, 0.0), log=True)).log
    assert bar_scale([0.197, 1e-6], Bars(("a", "b"), (0.197, 1e-6), log=True)).log


def test_a_long_name_in_a_legend_has_a_row_of_its_own() -> None:
    steps, losses = (0.0, 1.0), (2.0, 1.0)
    names = ("as it is", "with unnormalized-inputs fixed (divide pixels by 255)")
    drawn = as_svg(Lines(tuple((name, steps, losses) for name in names), "Loss"), "loss")
    assert all(name in drawn for name in names) and "…" not in drawn
