"""A run as text, and as a static picture with a table; the live view is a widget's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from nbdebug.evidence.recording import LayerSeries, Recording, Series
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding

__all__ = ["as_html", "as_text", "curves", "loss_lines"]

MOST_ROWS, MOST_POINTS = 12, 400


def as_text(recording: Recording, findings: Sequence[Finding] = ()) -> str:
    """Give the run in a few lines."""
    lines = [f"<nbdebug watch: {recording.model}, {_counted(recording.steps, 'step')}>"]
    lines += [f"  {name}: {text}" for name, text in _facts(recording)]
    lines += [f"  {finding}" for finding in findings]
    lines += [f"  not seen: {note}" for note in recording.unseen]
    return "\n".join(lines)


def _facts(recording: Recording) -> list[tuple[str, str]]:
    facts = [(name, _course(series)) for name, series in recording.scalars.items() if len(series)]
    facts += [(f"learning rate {name}", f"{series.last:.3g}") for name, series in recording.rates.items()]
    if len(recording.used):
        clipped, compared = recording.tally.clipped_steps, recording.tally.norms_compared
        share = f", clipped at {clipped} of {compared} measured steps" if clipped else ""
        facts.append(("gradient norm", f"{recording.gradient.last:.3g}{share}"))
    times = {
        name: float(np.nanmean(series.tail(512).values)) for name, series in recording.times.items() if len(series)
    }
    if sum(times.values()):
        shares = ", ".join(f"{name} {seconds / sum(times.values()):.0%}" for name, seconds in times.items())
        facts.append(("time", f"{1000 * sum(times.values()):.3g} ms a step: {shares}"))
    every = f"layers every {recording.sampled_every:.3g} steps"
    facts.append(("watching", f"{recording.share:.1%} of the time (budget {recording.budget:.1%}), {every}"))
    return facts


def _course(series: Series) -> str:
    found = series.finite
    if not len(found):
        return "never finite"
    bad = f", {series.not_finite} values not finite" if series.not_finite else ""
    return f"{found.values[0]:.4g} → {found.last:.4g}{bad}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def loss_lines(recording: Recording) -> Lines | None:
    """Give the loss as a drawing, at most a few hundred points; None where it was not seen."""
    found = recording.loss.finite
    if not len(found):
        return None
    return Lines.of_steps("loss", *_thinned(found), f"Loss of {recording.model}")


def curves(recording: Recording) -> tuple[Lines, ...]:
    """Give what a report shows of a run: the loss, the learning rates and the norm of the gradients."""
    loss = loss_lines(recording)
    rates = [(name, _thinned(series.finite)) for name, series in recording.rates.items() if len(series.finite)]
    norm = recording.gradient.finite
    drawn = [loss]
    series = tuple((f"group {name}" if name.isdecimal() else name, *xy) for name, xy in rates)
    if len(series) == 1:
        drawn.append(Lines.of_steps("rate", *series[0][1:], "Learning rate"))
    elif series:
        drawn.append(Lines(series, "Learning rate", y_label="rate"))
    drawn.append(Lines.of_steps("norm", *_thinned(norm), "Norm of the gradients") if len(norm) else None)
    return tuple(line for line in drawn if line is not None)


def _thinned(series: Series) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Give at most a few hundred points, spread over the whole run."""
    places = np.unique(np.linspace(0, len(series) - 1, MOST_POINTS).astype(int))
    return tuple(map(float, series.steps[places].tolist())), tuple(series.values[places].tolist())


def as_html(recording: Recording, findings: Sequence[Finding] = ()) -> str:
    """Give the loss curve, the layers and what was found as the output of a notebook cell: no script, nothing live."""
    from nbdebug.report.draw import as_svg_address

    parts = [f"<p><b>{escape(recording.model)}</b>, {_counted(recording.steps, 'step')}</p>"]
    curve = loss_lines(recording)
    if curve is not None:
        label = escape(f"The loss over {recording.steps} steps: {_course(recording.loss)}", quote=True)
        parts.append(f'<img src="{as_svg_address(curve, curve.title)}" alt="{label}" width="500">')
    facts = [f"<li>{escape(name)}: {escape(text)}</li>" for name, text in _facts(recording)]
    notes = [f"<li>{escape(str(finding))}</li>" for finding in findings]
    notes += [f"<li>not seen: {escape(note)}</li>" for note in recording.unseen]
    parts.append(f"<ul>{''.join(facts + notes)}</ul>{_table(recording)}")
    return f'<div class="nbdebug-watch">{"".join(parts)}</div>'


def _table(recording: Recording) -> str:
    """Give the newest numbers of the layers, in the order of the model; the middle is left out where there are many."""
    layers = list(recording.layers.values())
    if not layers:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("layer", "mean", "std", "abs max", "zeros", "gradient", "update"))
    shown: list[LayerSeries | None] = [*layers]
    if len(layers) > MOST_ROWS:
        half = MOST_ROWS // 2
        shown = [*layers[:half], None, *layers[-half:]]
    rows = "".join(_row(recording, layer, len(layers) - MOST_ROWS) for layer in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(recording: Recording, layer: LayerSeries | None, hidden: int) -> str:
    if layer is None:
        return f'<tr><td colspan="7">… {hidden} more</td></tr>'
    own = [p for p in recording.parameters.values() if p.layer == layer.path and p.is_matrix]
    cells = [layer.mean.last, layer.std.last, layer.abs_max.last, layer.zeros.last]
    cells += [own[0].gradient.last, own[0].update.last] if own else [float("nan")] * 2
    written = "".join(f"<td>{'' if np.isnan(cell) else format(cell, '.3g')}</td>" for cell in cells)
    return f"<tr><td>{escape(layer.path)}</td>{written}</tr>"
