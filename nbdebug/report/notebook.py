"""The report as a notebook: readable without running it, and able to rerun every check on the reader's own model."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.charts import Exhibit
from nbdebug.charts.draw import as_png
from nbdebug.core.finding import Place
from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.core.text import figure, shortened
from nbdebug.report import markdown as md
from nbdebug.report.links import link_to
from nbdebug.report.outline import Card, Outline, outline
from nbdebug.report.prepare import LEFT_OUT, prepared
from nbdebug.report.report import Report
from nbdebug.report.verdict import verdict
from nbdebug.report.words import counts_line

__all__ = ["as_notebook"]

if TYPE_CHECKING:
    from nbformat import NotebookNode as Cell

Link = Callable[[Place | None], str]
PICTURE_BYTES = 3_000_000  # base64 makes 4 MB of it; GitHub shows no notebook that is much larger than that
MOST_PICTURES = 40  # a reader who comes so far looks for something, and finds its numbers
PLUG_IN = """\
# Set your own objects here, then run all cells.
model = None      # your torch.nn.Module
loader = None     # your DataLoader
loss_fn = None    # None: the loss is inferred
optimizer = None  # None: Adam, on a copy
more = {}         # other arguments of nbdebug.diagnose, for example {"val_loader": val_loader}"""
HOW = (
    "This notebook holds saved results and can be read without running it. To rerun a check, set your model and your "
    "loader here and run the cells."
)
REPEAT = '''\
def repeat(*checks):
    """Rerun these checks on a copy of the model."""
    if model is None or loader is None:
        print("Set model and loader in the cell above, then rerun this cell.")
        return None
    try:
        import nbdebug
    except ImportError:
        print("Install nbdebug first: pip install nbdebug-torch")
        return None
    try:
        return nbdebug.diagnose(model, loader, loss_fn, optimizer, checks=checks, seed={seed}, progress=False, **more)
    except nbdebug.NbdebugError as error:
        print(error)'''


def as_notebook(report: Report, *, include_samples: bool = False, folder: Path | None = None) -> str:
    """Return the report as the text of a valid .ipynb file, without widgets or external resources.

    With the directory of the file, links to the user's files are relative to it.
    """
    with drawing_nothing():  # loaded here, because it takes longer than all of nbdebug
        import nbformat
        from nbformat.v4 import new_notebook
    cells = list(_cells(prepared(report, include_samples=include_samples), partial(link_to, folder=folder)))
    for number, cell in enumerate(cells):
        cell["id"] = f"nbdebug-{number}"  # the same report gives the same file
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = new_notebook(cells=cells, metadata=metadata)
    nbformat.validate(notebook)
    return f"{nbformat.writes(notebook, allow_nan=False)}\n"


def _cells(report: Report, link: Link) -> Iterator[Cell]:
    view, album = outline(report), _Album(link)
    yield _text(_first_screen(report, view, link), _contents(report, view), HOW)
    yield _code(PLUG_IN, tags=["parameters"])
    yield _code(REPEAT.format(seed=_seed(report)), hidden=True)
    if view.cause:
        yield from _evidence(view.cause, album)
    for title, cards in (("Other findings", view.others), ("Notes", view.notes)):
        if cards:
            yield _text(f"## {title}")
        for card in cards:
            yield _text(_words(card, link))
            yield from _evidence(card, album)
    if view.said:
        yield _text("## Your answers", md.said_table(view))
    if report.curves:
        shown = [output for curve in report.curves for output in album.show(curve, curve.title)]
        yield _text("## Recorded curves")
        yield _code("# curves recorded during training", shown)
    yield from _rest(view)
    yield _text(_run(report))


class _Album:
    """Return images as outputs until the notebook would become too large to open; hold the link function."""

    def __init__(self, link: Link) -> None:
        self.left, self.places, self.link = PICTURE_BYTES, MOST_PICTURES, link

    def show(self, exhibit: Exhibit | None, says: str) -> list[Cell]:
        if exhibit is None:
            return []
        if self.left <= 0 or self.places <= 0:
            return [
                _output(
                    {"text/plain": "The image is omitted to keep this file small; save the report as .html to see it."}
                )
            ]
        try:
            picture = as_png(exhibit)
        except Exception:  # a file may hold an exhibit that cannot be drawn; the text is still useful
            return [_output({"text/plain": "The image could not be drawn."})]
        if not picture:
            return []
        self.left, self.places = self.left - len(picture), self.places - 1
        label = shortened(says, 300)
        data = {"image/png": base64.b64encode(picture).decode("ascii"), "text/plain": f"Image: {label}"}
        return [_output(data, **{"image/png": {"width": 460, "alt": label}})]  # it is drawn at twice the size


def _first_screen(report: Report, view: Outline, link: Link) -> Iterable[str]:
    if view.cause is None:
        yield f"# {md.prose(verdict(report), 300)}"
    else:
        yield from _words(view.cause, link, level="#")


def _contents(report: Report, view: Outline) -> Iterable[str]:
    """Yield the number of checks by status, and the list of all findings."""
    yield f"---\n\n{counts_line(report)}"
    cards = list(view.cards)
    if len(cards) > 1:
        rows = [
            (
                card.finding.severity,
                md.code(card.finding.check),
                md.code(card.finding.where) if card.finding.where else "",
            )
            for card in cards[:40]
        ]
        yield md.table(("severity", "finding", "where"), rows)


def _evidence(card: Card, album: _Album) -> Iterator[Cell]:
    """Yield a cell that reruns a check, with its saved output, and the symptoms that it explains."""
    finding = card.finding
    plain = f"{finding.severity}: {shortened(finding.check, 80)}: {shortened(finding.says)}"
    shown = album.show(finding.exhibit, finding.says)
    for one in finding.verifications:
        shown += [
            _output({"text/plain": f"{shortened(one.remedy.says, 200)} {one}"}),
            *album.show(one.exhibit, one.says),
        ]
    yield _code(f"repeat({finding.check!r})", [_output({"text/plain": plain}), *shown])
    for symptom in card.symptoms:
        yield _text(_words(symptom, album.link, explained_by=finding.check))
        yield from _evidence(symptom, album)


def _words(card: Card, link: Link, *, level: str = "###", explained_by: str = "") -> Iterable[str]:
    finding = card.finding
    place = f" at {md.code(finding.where)}" if finding.where else ""
    follows = f", explained by {md.code(explained_by)}" if explained_by else ""
    likeliest = ", the most likely root cause" if level == "#" else follows
    yield f"{level} {md.prose(card.headline, 200)}"
    yield f"**{finding.severity}** {md.code(finding.check)}{place}{likeliest}"
    yield md.sentence(finding.says)
    yield md.made_in(card.place, link(card.place))
    if card.symptoms:
        yield "It explains " + ", ".join(md.code(s.finding.check) for s in card.symptoms) + "; these follow it."
    yield md.evidence(finding)
    yield md.rows_of(finding.exhibit)
    if finding.exhibit is not None and finding.exhibit.is_left_out:
        yield md.prose(LEFT_OUT)
    if card.about.why:
        yield f"**Why it matters**: {md.prose(card.about.why)}"
    yield from md.remedies(finding)
    if not finding.remedies and card.about.remedy:
        yield f"**What to try**: {md.prose(card.about.remedy)}"


def _rest(view: Outline) -> Iterator[Cell]:
    if view.clean:
        rows = [(md.code(r.check), md.prose(about.question or about.title)) for r, about in view.clean]
        yield _text(f"## Clean checks: {len(rows)}", md.table(("check", "question"), rows))
        yield _code(_call(r.check for r, _ in view.clean))
    if view.skipped:
        rows = [(md.code(r.check), md.prose(r.reason, 300)) for r, _ in view.skipped]
        yield _text(f"## Skipped checks: {len(rows)}", md.table(("check", "reason"), rows))
        yield _code(_call(r.check for r, _ in view.skipped))
    if view.crashed:
        rows = [(md.code(r.check), md.prose(r.reason, 600)) for r, _ in view.crashed]
        yield _text(
            f"## Crashed: {len(rows)}", "These checks gave no result for the model.", md.table(("check", "error"), rows)
        )
        yield _code(_call(r.check for r, _ in view.crashed))


def _call(checks: Iterable[str]) -> str:
    return "repeat(\n" + "".join(f"    {check!r},\n" for check in checks) + ")"


def _run(report: Report) -> Iterable[str]:
    yield "## This run"
    yield "\n".join(f"- {md.prose(note)}" for note in report.notes)
    for title, values in (
        ("setup", report.setup),
        ("environment", report.environment),
        ("seconds", report.timings),
    ):
        if values:
            yield md.table(
                (title, ""), [(md.prose(key, 80), md.prose(figure(value), 300)) for key, value in values.items()]
            )
    yield f"Generated by nbdebug{f' on {md.prose(report.made)}' if report.made else ''}."


def _seed(report: Report) -> int:
    seed = str(report.environment.get("seed", "0"))
    return int(seed) if seed.isdecimal() and len(seed) < 10 else 0


def _text(*paragraphs: str | Iterable[str]) -> Cell:
    from nbformat.v4 import new_markdown_cell

    flat = [part for item in paragraphs for part in ([item] if isinstance(item, str) else item)]
    cell: Cell = new_markdown_cell("\n\n".join(part for part in flat if part))
    return cell


def _code(source: str, outputs: Iterable[Cell] = (), tags: Iterable[str] = (), hidden: bool = False) -> Cell:
    from nbformat.v4 import new_code_cell

    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if hidden:
        metadata["jupyter"] = {"source_hidden": True}
    cell: Cell = new_code_cell(source, metadata=metadata, outputs=list(outputs))
    return cell


def _output(data: dict[str, str], **metadata: Any) -> Cell:
    from nbformat.v4 import new_output

    output: Cell = new_output("display_data", data, metadata=metadata)
    return output
