"""A run as text, and as a static picture with a table; the live view is a widget's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding
from nbdebug.core.text import aligned, figure, plural
from nbdebug.evidence.recording import Recording
from nbdebug.watch.recorder.series import LayerSeries, Series

__all__ = ["as_html", "as_text", "curves", "is_empty", "layer_rows", "loss_lines", "newest", "nothing", "rate_names"]

MOST_ROWS, MOST_POINTS = 12, 400
LAYER_COLUMNS = ("layer", "mean", "std", "abs max", "zeros", "gradient", "update")
NOTHING = "nothing recorded yet: run the training"


def as_text(recording: Recording, findings: Sequence[Finding] = ()) -> str:
    """Return the run in a few lines, with a short table of its layers."""
    lines = [f"<nbdebug watch: {recording.model}, {plural(recording.steps, 'step')}>"]
    lines += [f"  {name}: {text}" for name, text in _facts(recording)]
    lines += [f"  {nothing(recording)}"] if is_empty(recording) else []
    lines += [f"  {finding}" for finding in findings]
    lines += [f"  not seen: {note}" for note in recording.unseen]
    rows = layer_rows(recording)
    lines += [f"  {line}" for line in aligned(LAYER_COLUMNS, rows).splitlines()] if rows else []
    return "\n".join(lines)


def is_empty(recording: Recording) -> bool:
    """Whether there is nothing to show yet: no step was made, and nothing was logged."""
    return not recording.steps and not any(len(series) for series in recording.scalars.values())


def nothing(recording: Recording) -> str:
    """Say why there is nothing to show: nothing ran, or no optimizer stepped."""
    tally = recording.tally
    if not tally.backwards:
        return NOTHING
    passes = f"{tally.training_passes} forward and {tally.backwards} backward passes"
    return f"{passes} were seen, and no step of the optimizer that is watched"


def newest(series: Series) -> str:
    """Write the newest value as it is, also where it is no number."""
    return figure(series.last) if not np.isfinite(series.last) else f"{series.last:.4g}"


def rate_names(recording: Recording) -> dict[str, str]:
    """Name the learning rates: by nothing more where there is one, else by their groups."""
    if len(recording.rates) == 1:
        return dict.fromkeys(recording.rates, "learning rate")
    return {name: f"group {name}" if name.isdecimal() else name for name in recording.rates}


def _facts(recording: Recording) -> list[tuple[str, str]]:
    if is_empty(recording):
        return []
    facts = [(name, _course(series)) for name, series in recording.scalars.items() if len(series)]
    rates, rate = rate_names(recording), "learning rate"
    facts += [
        (rate if text == rate else f"{rate} of {text}", _course(recording.rates[name])) for name, text in rates.items()
    ]
    if len(recording.used):
        clipped, compared = recording.tally.clipped_steps, recording.tally.norms_compared
        share = f", clipped at {clipped} of {compared} measured steps" if clipped else ""
        facts.append(("gradient norm", f"{newest(recording.gradient)}{share}"))
    times = {
        name: float(np.nanmedian(series.tail(512).values)) for name, series in recording.times.items() if len(series)
    }
    if sum(times.values()):
        shares = ", ".join(f"{name} {seconds / sum(times.values()):.0%}" for name, seconds in times.items())
        facts.append(("time", f"{1000 * sum(times.values()):.3g} ms a step: {shares}"))
    often = "at every step" if recording.sampled_every < 1.005 else f"every {recording.sampled_every:.3g} steps"
    budget = f"budget for layers {100 * recording.budget:.3g}%"
    facts.append(("watching", f"{recording.share:.1%} of the time ({budget}), layers {often}"))
    return facts


def _course(series: Series) -> str:
    """Return the first and the newest value; the newest as it is, because a training that died must not look alive."""
    found = series.finite
    bad = f" (not finite in {plural(series.not_finite, 'step')})" if series.not_finite else ""
    if not len(found):
        return f"{newest(series)}{bad}"
    is_constant = not bad and float(np.nanmin(found.low)) == float(np.nanmax(found.high))
    return newest(series) if is_constant else f"{found.values[0]:.4g} → {newest(series)}{bad}"


def loss_lines(recording: Recording) -> Lines | None:
    """Return the loss as a drawing, at most a few hundred points; None where it was not seen."""
    found = recording.loss.finite
    if not len(found):
        return None
    return Lines.of_steps("loss", *_thinned(found), f"Loss of {recording.model}")


def curves(recording: Recording) -> tuple[Lines, ...]:
    """Return what a report shows of a run: the loss, the learning rates and the norm of the gradients."""
    loss = loss_lines(recording)
    rates = [(name, _thinned(series.finite)) for name, series in recording.rates.items() if len(series.finite)]
    norm = recording.gradient.finite
    drawn = [loss]
    names = rate_names(recording)
    series = tuple((names[name], *xy) for name, xy in rates)
    if len(series) == 1:
        drawn.append(Lines.of_steps("rate", *series[0][1:], "Learning rate"))
    elif series:
        drawn.append(Lines(series, "Learning rate", y_label="rate"))
    drawn.append(Lines.of_steps("norm", *_thinned(norm), "Norm of the gradients") if len(norm) else None)
    return tuple(line for line in drawn if line is not None)


def _thinned(series: Series) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return at most a few hundred points, spread over the whole run."""
    places = np.unique(np.linspace(0, len(series) - 1, MOST_POINTS).astype(int))
    return tuple(map(float, series.steps[places].tolist())), tuple(series.values[places].tolist())


def as_html(recording: Recording, findings: Sequence[Finding] = ()) -> str:
    """Return the loss curve, the layers and what was found as the output of a notebook cell: no script, nothing
    live.
    """
    from nbdebug.charts.draw import as_svg_address

    parts = [f"<p><b>{escape(recording.model)}</b>, {plural(recording.steps, 'step')}</p>"]
    curve = loss_lines(recording)
    if curve is not None:
        label = escape(f"The loss over {recording.steps} steps: {_course(recording.loss)}", quote=True)
        parts.append(f'<img src="{as_svg_address(curve, curve.title)}" alt="{label}" width="500">')
    facts = [f"<li>{escape(name)}: {escape(text)}</li>" for name, text in _facts(recording)]
    facts += [f"<li>{escape(nothing(recording))}</li>"] if is_empty(recording) else []
    notes = [f"<li>{escape(str(finding))}</li>" for finding in findings]
    notes += [f"<li>not seen: {escape(note)}</li>" for note in recording.unseen]
    parts.append(f"<ul>{''.join(facts + notes)}</ul>{_table(recording)}")
    return f'<div class="nbdebug-run">{"".join(parts)}</div>'


def layer_rows(recording: Recording) -> list[tuple[str, ...]]:
    """Return the newest numbers of the layers, in the order of the model; the middle is left out where there are
    many.
    """
    layers = list(recording.layers.values())
    half, hidden = MOST_ROWS // 2, len(layers) - MOST_ROWS
    if hidden <= 0:
        return [_row(recording, layer) for layer in layers]
    gap = (f"… {hidden} more", *[""] * (len(LAYER_COLUMNS) - 1))
    ends = [[_row(recording, layer) for layer in part] for part in (layers[:half], layers[-half:])]
    return [*ends[0], gap, *ends[1]]


def _row(recording: Recording, layer: LayerSeries) -> tuple[str, ...]:
    own = [p for p in recording.parameters.values() if p.layer == layer.path and p.is_matrix]
    shown = [layer.mean, layer.std, layer.abs_max, layer.zeros]
    shown += [own[0].gradient, own[0].update] if own else []
    cells = [_cell(series.last) for series in shown]
    return (layer.path, *cells, *[""] * (len(LAYER_COLUMNS) - 1 - len(cells)))


def _cell(value: float) -> str:
    """Write a number shortly; NaN stands for what was not measured, and infinity for what is not finite."""
    return "" if np.isnan(value) else f"{value:.3g}" if np.isfinite(value) else "not finite"


def _table(recording: Recording) -> str:
    head = "".join(f"<th>{name}</th>" for name in LAYER_COLUMNS)
    rows = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in layer_rows(recording)]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""
