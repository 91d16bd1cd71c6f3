"""The report as one page that needs nothing else, and as a piece of a notebook's output."""

from __future__ import annotations

import base64
import hashlib
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nbdebug.charts import Exhibit, Images, Panels, Table
from nbdebug.charts.draw import as_svg, as_svg_address, is_drawn, picture_of
from nbdebug.core.finding import Finding
from nbdebug.core.text import figure, plural, shortened
from nbdebug.engine.decision_tree.states import ICONS, WORDS
from nbdebug.report import words
from nbdebug.report.diffs import shown_diff
from nbdebug.report.links import link_to
from nbdebug.report.outline import outline
from nbdebug.report.prepare import LEFT_OUT, prepared, ready
from nbdebug.report.report import Report
from nbdebug.report.verdict import extent, part_line, tally, verdict

if TYPE_CHECKING:
    from jinja2 import Environment

    from nbdebug.core.verification import Verification
    from nbdebug.report.difference import Difference
    from nbdebug.report.tree import DrawnTree

__all__ = [
    "Proof",
    "as_fragment",
    "as_page",
    "difference_fragment",
    "part_fragment",
    "result_fragments",
    "tree_fragment",
]

MOST_TABLE_ROWS, MOST_PICTURES = 50, 100


def as_page(report: Report, *, include_samples: bool = False, folder: Path | None = None) -> str:
    """Return the whole report as one HTML file: offline, light and dark, to read, to fold, to search and to print.

    With the folder that the file will lie in, it links to the user's own files as seen from there.
    """
    script = _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return _render("page.html", report, include_samples, folder, script=script, digest=digest, key="")


def as_fragment(report: Report, *, include_samples: bool = False) -> str:
    """Return the report as the output of a notebook cell: its own style, no script."""
    return _render("fragment.html", report, include_samples, None, key=_key(report))


class Proof(NamedTuple):
    """The picture that convinces, in the order of a page: words, charts that the page draws itself, and the numbers."""

    above: str = ""
    charts: tuple[Exhibit, ...] = ()
    below: str = ""


def result_fragments(
    report: Report,
    *,
    running: bool = False,
    learns: str = "",
    rivals: Sequence[tuple[str, float]] = (),
    panels: Panels | None = None,
    live: tuple[type[Exhibit], ...] = (),
) -> tuple[str, Proof, str]:
    """Return the report in three pieces, for what may stand between them: the verdict, its picture, and the rest.

    While checks are running there are findings as cards, the most likely first, and no rest. `learns` is what was
    measured of a training that learns, `rivals` are the exchanges that were tried in vain, with the skill they came to,
    and `panels` the courses of the trainings with one ingredient exchanged. The main chart is left to the page where it
    is of a `live` kind.
    """
    key = _key(report)
    if running:
        return _render("running.html", report, False, None, key=key, running=True), Proof(), ""
    answer = _render("answer.html", report, False, None, key=key, learns=learns)
    proof = _proof(report, key, live) if report.alarms else Proof()
    return answer, proof, _render("others.html", report, False, None, key=key, rivals=rivals, panels=panels)


def _proof(report: Report, key: str, live: tuple[type[Exhibit], ...]) -> Proof:
    cause = outline(prepared(report)).cause
    proven = [v.exhibit for v in cause.finding.verifications if v.exhibit is not None] if cause is not None else []
    borrowed = cause.borrowed.finding if cause is not None and cause.borrowed is not None else None
    main = proven[-1] if proven else getattr(borrowed or getattr(cause, "finding", None), "exhibit", None)
    chart = main if isinstance(main, live) and is_drawn(main) else None
    above = _render("proof.html", report, False, None, key=key, half="above", elsewhere=chart)
    below = _render("proof.html", report, False, None, key=key, half="below")
    return Proof(above, () if chart is None else (chart,), below)


def part_fragment(report: Report, part: str, explained_by: Mapping[str, str]) -> str:
    """Return what one step or stage found, without a headline: it is no verdict on the model.

    `explained_by` names the cause, found elsewhere or here, by the check whose finding it accounts for.
    """
    line = part_line(report, part)
    return _render("part.html", report, False, None, key=_key(report), line=line, explained_by=explained_by)


def _key(report: Report) -> str:
    """Return a prefix for anchors: a notebook may show several reports, and links must not lead into another one."""
    return f"nbd-{zlib.crc32(repr((report.made, report.findings)).encode('utf-8', 'replace')):08x}-"


def difference_fragment(difference: Difference) -> str:
    """Return the comparison of two reports as the output of a notebook cell."""
    template = _environment().get_template("difference.html")
    return template.render(difference=ready(difference), style=_resource("style.css"))


def tree_fragment(tree: DrawnTree) -> str:
    """Return the decision tree as the output of a notebook cell: its own style, no script."""
    template = _environment().get_template("tree.html")
    styles = _resource("style.css") + _resource("tree.css")
    return template.render(tree=tree, style=styles, icons=ICONS, state_words=WORDS, words=words)


def _render(
    template: str,
    report: Report,
    include_samples: bool,
    folder: Path | None,
    *,
    running: bool = False,
    elsewhere: Exhibit | None = None,
    **more: Any,
) -> str:
    shown = prepared(report, include_samples=include_samples)
    return (
        _environment()
        .get_template(template)
        .render(
            report=shown,
            outline=outline(shown),
            style=_resource("style.css"),
            words=words,
            count=(count := tally(shown)),
            extent=extent(count, running=running),
            verdict=verdict(shown, running=running),
            running=running,
            left_out=LEFT_OUT,
            picture=(picture := partial(_picture, itertools.count(), elsewhere)),
            curve=lambda exhibit, inline: picture(_Shown(exhibit, "recorded during training"), inline),
            panel=lambda exhibit, at: picture(_Shown(replace(exhibit, only=at), exhibit.remarks[at]), False),
            table=lambda exhibit: exhibit if isinstance(exhibit, Table) else None,
            samples=_samples,
            link=partial(link_to, folder=folder),
            most_rows=MOST_TABLE_ROWS,
            **more,
        )
    )


class _Shown(NamedTuple):
    exhibit: Exhibit
    says: str


def _picture(
    drawn: Iterator[int], elsewhere: Exhibit | None, finding: Finding | Verification | _Shown, inline: bool
) -> Any:
    """Draw what a finding or a tried remedy shows; the text for those who cannot see it is what it says."""
    from markupsafe import Markup

    if finding.exhibit is None or finding.exhibit == elsewhere or isinstance(finding.exhibit, (Table, Images)):
        return ""
    if next(drawn) >= MOST_PICTURES:  # a report of a thousand findings has to stay a file that opens
        return Markup('<p class="nbd-quiet">The image is omitted to keep this file small.</p>')
    title = getattr(finding.exhibit, "title", "")
    label = shortened(f"{title}: {finding.says}" if title else finding.says, 300)
    try:
        if inline:
            return Markup(as_svg(finding.exhibit, label))
        return Markup('<img src="{}" alt="{}" width="500">').format(as_svg_address(finding.exhibit, label), label)
    except Exception:  # a file may hold an exhibit that cannot be drawn; the words are still worth reading
        return Markup('<p class="nbd-quiet">The image could not be drawn.</p>')


def _samples(exhibit: Exhibit | None) -> list[tuple[str, str]]:
    """Return the pictures of samples as data addresses with their captions."""
    if not isinstance(exhibit, Images):
        return []
    captions = itertools.chain(exhibit.captions, itertools.repeat(""))
    return [
        (f"data:image/png;base64,{base64.b64encode(picture_of(pixels)).decode('ascii')}", caption)
        for pixels, caption in zip(exhibit.pictures[:24], captions, strict=False)
    ]


def _prose(text: str) -> Any:
    """Show what documentation puts between backticks as code."""
    from markupsafe import Markup, escape

    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("nbdebug.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(figure=figure, short=shortened, prose=_prose)
    environment.globals.update(plural=plural, shown_diff=shown_diff)
    return environment


@cache
def _resource(name: str) -> str:
    return resources.files("nbdebug.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")
