"""The normal distribution that a model samples from, and the divergence in its loss, as functions of its width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.tape import Taint, Tape
from nbdebug.experiments.tape.ops import Op, Use
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.experiments.tape.replay import replayed
from nbdebug.experiments.tape.tape import tape_of
from nbdebug.experiments.tape.walk import ancestors
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["SampledNormal", "sampled_normal"]

GRID = torch.linspace(-1.6, 1.6, 9).tolist()  # of what the width is computed from
MEANS = (0.0, 0.7, -1.1)
# What stands in a divergence for the second moment and for the logarithm of a width s, and what was taken for what.
FORMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "": (torch.square, torch.log),
    "the standard deviation for the variance": (lambda s: s, torch.log),
    "the square root of the standard deviation for it": (torch.sqrt, torch.log),
    "the variance for the standard deviation": (lambda s: s**4, torch.log),
    "the standard deviation for the log variance": (torch.exp, lambda s: s),
    "the standard deviation for its logarithm": (lambda s: (2 * s).exp(), lambda s: s),
    "the variance for its logarithm": (lambda s: s.square().exp(), torch.square),
}


@dataclass(frozen=True)
class SampledNormal:
    """Which form of a normal divergence a term of the loss has, if the width is what the noise is scaled with.

    `taken` says what is taken for what, empty where nothing is; `error` is the residual of that form, and `own_error`
    that of the right one, both relative to how far the term varies. `is_raised` says that the term falls as the
    distribution gets farther from the prior.
    """

    taken: str
    error: float
    own_error: float
    is_raised: bool
    place: str


@probe
def sampled_normal(sandbox: Sandbox) -> SampledNormal:
    """Exchange mean and width of the sampled distribution, and fit the term of the loss that reads them."""
    sandbox.ready_to_train()
    place = "train_step" if sandbox.train_step is not None else "compute_loss"
    place = "loss_fn" if place == "compute_loss" and sandbox.compute_loss is None else place
    with required_user_code("the run fails ({kind})"):
        step = sandbox.train_step is not None
        tape = tape_of(run_recorded(sandbox, sandbox.batch(), step=step, keep_data=True), step)
        for mean, scaled, width in _draws(tape):
            found = _fitted(tape, mean, scaled, width)
            if found is not None:
                return SampledNormal(*found, place)
    raise NotApplicable("no term of the loss reads the width of a distribution that the model samples from")


def _draws(tape: Tape) -> list[tuple[int, int, int]]:
    """Return the means, the products of noise and width, and the widths, of sums `mean + width * noise`."""
    found, values = [], tape.recording.values
    for op in tape.recording.ops:
        parts = [part.number for part in op.args if isinstance(part, Use)]
        if op.name not in ("add", "radd") or len(parts) != 2:
            continue
        for mean, scaled in (parts, parts[::-1]):
            width = _width(tape, tape.recording.producer(scaled))
            if width is not None and values[mean].requires_grad and values[mean].shape == values[width].shape:
                found.append((mean, scaled, width))
    return found


def _width(tape: Tape, op: Op | None) -> int | None:
    parts = [part.number for part in op.args if isinstance(part, Use)] if op is not None else []
    if op is None or op.name not in ("mul", "rmul") or len(parts) != 2:
        return None
    values = tape.recording.values
    for width, noise in (parts, parts[::-1]):
        is_noise = bool(values[noise].taint & Taint.RANDOM) and not values[noise].taint & Taint.PARAMETER
        if is_noise and values[width].requires_grad and values[width].shape == values[noise].shape:
            return width
    return None


def _fitted(tape: Tape, mean: int, scaled: int, width: int) -> tuple[str, float, float, bool] | None:
    recording, source = tape.recording, _source(tape, width)
    terms = []
    for term in tape.terms:
        made_of = ancestors(recording, term.number)
        if {mean, source} & made_of and scaled not in made_of:
            terms.append((term.number, term.factor))
    if not any(source in ancestors(recording, number) for number, _ in terms):
        return None
    rows = []
    with torch.no_grad():
        for value, m in product(GRID, MEANS):
            given = {source: _filled(tape, source, value), mean: _filled(tape, mean, m)}
            own = given[source] if source == width else replayed(recording, given, width, reads_matter=False)
            parts = [f * replayed(recording, given, n, reads_matter=False).double().sum() for n, f in terms]
            rows.append((float(own.flatten()[0]), m, float(torch.stack(parts).sum())))
    s, means, term = torch.tensor(rows, dtype=torch.float64).T
    is_usable = bool((s > 0).all()) and bool(torch.isfinite(term).all()) and len(s.unique()) > len(GRID) // 2
    return _best(s, means, term) if is_usable else None


def _filled(tape: Tape, number: int, value: float) -> torch.Tensor:
    return torch.full(tape.recording.values[number].shape, value)


def _source(tape: Tape, width: int) -> int:
    """Return what the width is computed from by functions of single entries, such as `exp(0.5 * log_variance)`."""
    number = width
    while (op := tape.recording.producer(number)) is not None:
        graded = [n for n in dict.fromkeys(op.inputs) if tape.recording.values[n].requires_grad]
        same = len(graded) == 1 == len(set(op.inputs)) and tape.recording.values[graded[0]].shape == (
            tape.recording.values[number].shape
        )
        if not same or op.name in ("linear", "conv1d", "conv2d", "layer_norm", "batch_norm", "dropout", "softmax"):
            break
        number = graded[0]
    return number


def _best(s: torch.Tensor, m: torch.Tensor, term: torch.Tensor) -> tuple[str, float, float, bool] | None:
    errors = {}
    for name, (moment, logarithm) in FORMS.items():
        columns = [moment(s) + m.square(), logarithm(s)] if not name else [moment(s), m.square(), logarithm(s)]
        basis = torch.stack([*columns, torch.ones_like(s)], 1)
        weights = torch.linalg.lstsq(basis, term[:, None]).solution
        spread = float((term - term.mean()).norm())
        errors[name] = float((basis @ weights - term[:, None]).norm()) / max(spread, 1e-12), float(weights[0])
    name = min(errors, key=lambda n: errors[n][0])
    return name, errors[name][0], errors[""][0], errors[name][1] < 0
