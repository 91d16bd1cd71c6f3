"""Draws docs/images/architecture.svg: the way of one batch through the folders of the package."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

__all__ = ["architecture_picture"]

PACKAGE = Path(__file__).resolve().parent.parent / "nbdebug"
WIDTH, HEIGHT = 1076, 440
WIDE, HIGH = 134, 80
COLORS = {"yours": "#fdf1d8", "copy": "#e3eefb", "pure": "#e4f4e8", "shown": "#f1e8f8"}


@dataclass(frozen=True)
class Box:
    """A folder or a file of the package with what it does; `key` is empty for what is the user's."""

    key: str
    title: str
    lines: tuple[str, ...]
    column: float
    row: float
    color: str

    @property
    def x(self) -> float:
        """The left edge."""
        return 14 + self.column * 153

    @property
    def y(self) -> float:
        """The upper edge."""
        return 60 + self.row * 130


BOXES = (
    Box("", "your notebook", ("model, loader,", "loss, optimizer"), 0, 1, "yours"),
    Box("setup", "setup/", ("takes a batch apart,", "iterates nothing"), 1, 1, "yours"),
    Box("sandbox", "sandbox/", ("the copy, and the", "guard around it"), 2, 1, "copy"),
    Box("experiments", "experiments/", ("capture, trace,", "train briefly"), 3, 1, "copy"),
    Box("evidence", "evidence/", ("shared measurements:", "plain numbers"), 4, 1, "pure"),
    Box("checks", "checks/", ("one problem, one file:", "probe and verdict"), 5, 1, "pure"),
    Box("core/finding", "finding", ("what, where, how", "sure, what to try"), 6, 1, "pure"),
    Box("engine", "engine/", ("decision tree, session,", "root cause"), 4, 0, "pure"),
    Box("watch", "watch/", ("records your own", "loop as it runs"), 1, 2, "yours"),
    Box("fixes", "fixes/", ("tries a fix on", "another copy"), 4, 2, "copy"),
    Box("report", "report/", ("page, notebook,", "data, SARIF"), 5, 2, "shown"),
    Box("widgets", "widgets/", ("the wizard and", "the views"), 6, 2, "shown"),
)
ARROWS = (
    ("", "setup"), ("setup", "sandbox"), ("sandbox", "experiments"), ("experiments", "evidence"),
    ("evidence", "checks"), ("checks", "core/finding"), ("engine", "experiments"), ("engine", "checks"), ("", "watch"),
    ("watch", "evidence"), ("core/finding", "fixes"), ("core/finding", "report"), ("core/finding", "widgets"),
)  # fmt: skip


def architecture_picture() -> str:
    """Return the picture as SVG; a folder that is gone is an error, so that the picture stays true."""
    by_key = {box.key: box for box in BOXES}
    for key in filter(None, by_key):
        assert (PACKAGE / key).is_dir() or (PACKAGE / f"{key}.py").is_file(), f"nbdebug/{key} is drawn, but not there"
    edge = by_key["sandbox"].x - 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">',
        "<title>The way of one batch through the folders of nbdebug</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fff"/>',
        f'<line x1="{edge}" y1="20" x2="{edge}" y2="{HEIGHT - 20}" stroke="#c0392b" stroke-dasharray="6 5"/>',
        _side(edge - 10, "end", "your objects, bit-identical"),
        _side(edge + 10, "start", "beyond this line: copies and numbers only"),
        *(_arrow(by_key[start], by_key[end]) for start, end in ARROWS),
        *(_box(box) for box in BOXES),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _side(x: float, anchor: str, text: str) -> str:
    return f'<text x="{x}" y="34" font-size="15" fill="#c0392b" text-anchor="{anchor}">{text}</text>'


def _box(box: Box) -> str:
    middle = box.x + WIDE / 2
    lines = "".join(
        f'<text x="{middle}" y="{box.y + 48 + 18 * number}" font-size="13.5" fill="#333" text-anchor="middle">'
        f"{escape(line)}</text>"
        for number, line in enumerate(box.lines)
    )
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{WIDE}" height="{HIGH}" rx="7" fill="{COLORS[box.color]}" '
        f'stroke="#888"/><text x="{middle}" y="{box.y + 25}" font-size="16" font-weight="bold" fill="#111" '
        f'text-anchor="middle">{escape(box.title)}</text>{lines}'
    )


def _arrow(start: Box, end: Box) -> str:
    """Draw sideways within a row, and between rows from the nearest edges."""
    if start.row == end.row:
        x1, y1, x2, y2 = start.x + WIDE, start.y + HIGH / 2, end.x - 2, end.y + HIGH / 2
    else:
        down = end.row > start.row
        lean = 30 if end.column > start.column else -30 if end.column < start.column else 0
        x1, y1 = start.x + WIDE / 2 + lean, start.y + (HIGH if down else 0)
        x2, y2 = end.x + WIDE / 2 - lean, end.y + (-2 if down else HIGH + 2)
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#555" stroke-width="1.4" marker-end="url(#tip)"/>'
