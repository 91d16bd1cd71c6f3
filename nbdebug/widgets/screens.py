"""What the wizard writes on its screens, as HTML: everything that comes from the user is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from nbdebug.core.registry import Registry
from nbdebug.core.text import clean_text, figure, shortened
from nbdebug.engine.decision_tree import Stage, Step, find_symptom, whole_tree
from nbdebug.engine.session import Session
from nbdebug.sandbox import Sandbox
from nbdebug.views import page
from nbdebug.views.batch_preview.preview import BatchView, TokenLine
from nbdebug.widgets.understanding import Understanding

__all__ = ["SYMPTOMS", "about_step", "batch", "chip", "heading", "plan", "prose", "samples", "title_of"]

# The six that are offered as buttons, each with a sign and in few words.
SYMPTOMS = (
    ("∞  Loss is NaN", "loss-is-nan"),
    ("→  Loss does not fall", "loss-does-not-fall"),
    ("≈  Stuck at chance", "stuck-at-chance"),
    ("↕  Good on train, bad on val", "bad-on-validation"),
    ("◷  Too slow", "too-slow"),
    ("✕  It crashes", "does-not-run"),
)
PROMISE = "Runs on a copy{}; your model stays bit-identical."
MOST_LEADS, MOST_ROWS, MOST_COLUMNS, MOST_CLASSES = 3, 8, 6, 12
SECONDS_QUICK, SECONDS_TRAINING = 1, 10  # of one probe that was not measured yet, roughly


def heading(text: str) -> str:
    """Return a text as the heading of a step: the largest text of its pane."""
    return f"<h3 class='nbdebug-title-text'>{escape(text)}</h3>" if text else ""


def prose(html: str) -> str:
    """Return text lines as close as a paragraph's; those of a widget stand as far apart as its buttons."""
    return f"<div class='nbdebug-prose'>{html}</div>" if html else ""


def chip(name: str, says: str, about: str = "") -> str:
    """Return one thing that was understood, with the reason for it where the pointer rests."""
    title = f' title="{_text(about)}"' if about else ""
    return f'<span class="nbdebug-chip"{title}><span>{_text(name)}</span> {_text(shortened(says, 48))}</span>'


def batch(known: Understanding) -> str:
    """Return the first batch with its labels: pictures as pictures, else rows, tokens or values."""
    view = known.preview
    if view is None:
        reason = f": {known.problem}" if known.problem else ""
        return f'<p class="nbdebug-quiet">The first batch could not be shown{_text(reason)}</p>'
    parts = "".join(_part(part, view) for part in view.parts if part.role == "input")
    said = [known.values, f"{view.size} samples in a batch"]
    problem = f"<p class='nbdebug-warn'>▲ {_text(known.problem)}</p>" if known.problem else ""
    line = " · ".join(_text(word) for word in said if word)
    return f'{parts}{_classes(view)}<p class="nbdebug-quiet">{line}</p>{problem}'


def samples(view: BatchView, places: Sequence[int]) -> str:
    """Return some samples of a batch with their labels."""
    chosen = replace(view, samples=tuple(view.samples[place] for place in places))
    parts = [part for part in view.parts if part.role == "input"][:1]
    shown = [replace(part, items=tuple(part.items[i] for i in places if i < len(part.items))) for part in parts]
    return "".join(_part(part, chosen) for part in shown)


def _part(part: Any, view: BatchView) -> str:
    labels = [sample.target for sample in view.samples]
    if part.kind in ("image", "mask"):
        cells = "".join(
            f'<figure><img src="{page.address_of(pixels)}" alt="{_text(label) or "a sample"}">'
            f"<figcaption>{_text(shortened(label, 24))}</figcaption></figure>"
            for pixels, label in zip(part.items, labels, strict=False)
        )
        return f'<div class="nbdebug-cells">{cells}</div>'
    if part.kind == "tokens":
        return _table(("tokens", "label"), [(_words(t), s) for t, s in zip(part.items, labels, strict=False)])
    if part.kind == "table":
        names = part.columns[:MOST_COLUMNS]
        more = ("…",) if len(part.columns) > MOST_COLUMNS else ()
        rows = [
            (*(_number(float(v)) for v in row[: len(names)]), *more, s)
            for row, s in zip(part.items, labels, strict=False)
        ]
        return _table((*names, *more, "label"), rows)
    shape = " × ".join(map(str, part.shape))
    rows = [(f"#{n}", s) for n, s in enumerate(labels)] if any(labels) else []
    return f"<p>{_text(part.name)}: {_text(part.kind)}, {_text(shape)}</p>" + _table(("sample", "label"), rows)


def _number(value: float) -> str:
    """Return a value of a table with three digits, and a large one without an exponent."""
    return f"{value:.3g}" if abs(value) < 1000 else figure(value)


def _words(item: TokenLine) -> str:
    words = [word for word, padding in zip(item.words, item.padding, strict=True) if not padding]
    return shortened(" ".join(words), 90)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    shown = list(rows)[:MOST_ROWS]
    return f'<div class="nbdebug-scroll">{page.table(columns, shown)}</div>' if shown else ""


def _classes(view: BatchView) -> str:
    if len(view.class_counts) < 2:
        return ""
    names, counts = zip(*view.class_counts[:MOST_CLASSES], strict=True)
    most = max(max(counts), 1)
    rows = "".join(
        f'<li><i style="--share:{count / most:.2f}"></i>'
        f'<span title="{_text(name)}">{_text(shortened(str(name), 16))}</span>{count}</li>'
        for name, count in zip(names, counts, strict=True)
    )
    more = len(view.class_counts) - MOST_CLASSES
    rest = f'<p class="nbdebug-quiet">… and {more} more classes</p>' if more > 0 else ""
    return f'<ul class="nbdebug-classes" aria-label="samples per class in this batch">{rows}</ul>{rest}'


def plan(symptom: str, known: Registry, seconds: float = math.inf) -> str:
    """Say what runs first for a symptom, and why, and how long the run may take."""
    chosen = find_symptom(symptom) if symptom else None
    promise = PROMISE.format(f" for at most about {figure(seconds)} s" if math.isfinite(seconds) else "")
    if chosen is None or not chosen.leads:
        return prose(f"<span class='nbdebug-quiet'>{promise}</span>")
    labels = {step.id: step.label for stage in whole_tree(known) for step in stage.steps}
    rows = "".join(
        f"<li><b>{_text(', '.join(labels[step] for step in lead.steps if step in labels))}</b>: {_text(lead.why)}</li>"
        for lead in chosen.leads[:MOST_LEADS]
    )
    return prose(
        f"<b>{_text(chosen.words)}.</b> Runs first:<ol>{rows}</ol><span class='nbdebug-quiet'>{promise}</span>"
    )


def title_of(step: Step) -> str:
    """Return the label of a step with its question."""
    return f"{step.label}: {step.question[:1].lower()}{step.question[1:]}"


def about_step(stage: Stage, step: Step, session: Session, note: str = "") -> str:
    """Return where a step stands, why it matters, what its probes do to the copy, for how long, and its source."""
    parts = [f"<p>{_text(step.why)}</p>"]
    doing, seconds = _probes(step, session)
    if doing:
        listed = "; ".join(f"{title[:1].lower()}{title[1:]}" for title in doing)
        parts.append(f"<p><b>On a copy:</b> {_text(listed)}. <span class='nbdebug-quiet'>{_text(seconds)}</span></p>")
    if step.source:
        parts.append(f"<p class='nbdebug-quiet'>Source: {_text(step.source)}</p>")
    if note:
        parts.append(f"<p class='nbdebug-warn'>↻ {_text(note)}</p>")
    return prose("".join(parts))


def _probes(step: Step, session: Session) -> tuple[list[str], str]:
    """Return what the probes of a step do, and about how long that takes."""
    known = session.registry
    specs = [known.checks[check] for check in step.checks if check in known.checks]
    kinds = dict.fromkeys(need.kind for spec in specs for need in spec.needs.values())
    probes = [probe for kind in kinds if kind is not Sandbox and (probe := known.probe_for(kind)) is not None]
    missing = [probe for probe in probes if session.known(probe.yields) is None]
    if not probes:
        return [], ""
    if not missing:
        return [probe.title for probe in probes], "Measured already; nothing runs again."
    took = [session.timings.get(p.name, SECONDS_QUICK if p.is_quick else SECONDS_TRAINING) for p in missing]
    trains = any(not probe.is_quick for probe in missing)
    return [probe.title for probe in probes], f"About {max(1, round(sum(took)))} s{', because it trains' * trains}."


def _text(text: object) -> str:
    return escape(clean_text(text))
