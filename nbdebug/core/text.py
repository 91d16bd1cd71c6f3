"""How numbers and texts of the user's are shown: cleaned, shortened, without paths."""

from __future__ import annotations

import numbers
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["aligned", "clean_text", "clipped", "figure", "in_sentence", "listed", "plural", "redacted", "shortened"]


_JOINERS = "\u200c\u200d"  # invisible, but Persian and many emoji cannot be written without them
_PART = r"[^\s/\\:*?\"'<>|(),;`]"  # one character of a folder's name in running text
_PATHS = re.compile(
    r"(?P<quote>[\"'])(?:file:/*)?(?:~?/|[A-Za-z]:[\\/]|\\\\)[^\"'\n]*[\\/][^\"'\n]*(?P=quote)"  # may hold spaces
    rf"|(?<![\w/\\.~<])(?:file:/*)?~?/(?:{_PART}+/)+{_PART}*"
    rf"|\b(?:file:/*)?[A-Za-z]:[\\/]+(?:{_PART}+[\\/]+)*{_PART}*"
    rf"|\\\\(?:{_PART}+\\+)+{_PART}*"
)
_LONG_WORD = re.compile(r"[!-~]{160,}")  # breaking such a word into lines takes a browser a minute


def clean_text(text: object) -> str:
    """Make user text safe to print: control characters become visible, lone surrogates are replaced."""
    safe = str(text).encode("utf-8", "replace").decode("utf-8")
    if safe.isascii() and safe.isprintable():
        return safe
    return "".join(
        c if c in "\n\t" or c in _JOINERS or unicodedata.category(c) not in {"Cc", "Cf", "Co", "Cn"} else "\ufffd"
        for c in safe
    )


def redacted(text: str) -> str:
    """Keep only the last part of every file path, because the directories before it name people and projects."""
    if "/" not in text and "\\" not in text:
        return text
    if (home := _home()) and home in text:
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    return _PATHS.sub(_last_part, text)


@cache
def _home() -> str:
    """Return the home directory; empty if it is the root directory."""
    try:
        home = str(Path.home())
    except RuntimeError:  # there is no home in some containers
        return ""
    return home if len(home) > 3 else ""


def _last_part(match: re.Match[str]) -> str:
    path, quote = match.group(), match.group("quote") or ""
    parts = [part for part in re.split(r"[\\/]+", path.strip("\"'")) if part]
    is_home = len(parts) < 3 and parts and parts[0].lower() in {"home", "users"}
    return f"{quote}{'~' if is_home or not parts else f'…/{parts[-1]}'}{quote}"


def shortened(text: str, limit: int = 1500) -> str:
    """Truncate a long text with the number of omitted characters; also truncate very long words."""
    if len(text) > limit + 40:
        text = f"{text[:limit]}… ({len(text) - limit:,} characters more)"
    return _LONG_WORD.sub(lambda word: f"{word[0][:90]}…{word[0][-40:]}", text)


def clipped(text: object, limit: int) -> str:
    """Keep both ends of a long name, because the parts of a model differ at either."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= limit else f"{line[: limit // 2 - 1]}…{line[-(limit // 2) :]}"


def figure(value: Any) -> str:
    """Format a measured value for reading: few digits, no long lists."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}"
    if isinstance(value, numbers.Real):
        return _real(float(value))
    if isinstance(value, dict):
        return _row([f"{shortened(str(key), 80)}: {figure(item)}" for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return _row([figure(item) for item in value])
    return shortened(str(value), 400)


def _real(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "-∞"
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"


def _row(items: list[str], limit: int = 12) -> str:
    more = f", and {len(items) - limit} more" if len(items) > limit else ""
    return shortened(", ".join(items[:limit]) + more, 800)


def aligned(columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int = 60) -> str:
    """Return rows as aligned text; the first column to the left, the others to the right."""
    cells = [[clean_text(figure(value)) for value in row] for row in rows]
    shown = [list(columns), *cells[:most]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(columns))]
    texts = [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(pairs)).rstrip()
        for pairs in (list(zip(row, widths, strict=True)) for row in shown)
    ]
    return "\n".join([*texts, f"… and {len(cells) - most} more"] if len(cells) > most else texts)


def in_sentence(text: str) -> str:
    """Return a sentence as a part of another one: with a small first letter, without its period."""
    return f"{text[:1].lower()}{text[1:].removesuffix('.')}"


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def plural(count: int, word: str) -> str:
    """Return a count with its noun in singular or plural."""
    return f"{count} {word}{'' if count == 1 else 's'}"
