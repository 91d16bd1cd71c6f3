"""Whether the prediction depends on the order of the tokens, and whether their order says anything."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.attention_scores import AttentionScores
from nbdebug.evidence.position_influence import few_samples
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.experiments.batch_dim import change_of
from nbdebug.experiments.compared_positions import compared, prediction_of, sources_of
from nbdebug.experiments.locate_module import jittered
from nbdebug.experiments.positions import Stream, exchanged, streams
from nbdebug.experiments.tape import Tape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves, name_of
from nbdebug.setup.user_code import user_code

__all__ = ["OrderResponse", "order_response"]

SHUFFLES = 20  # of the tokens within each sample, for how often two stand next to each other by chance
BATCHES = 16
FEWEST = 6  # positions


@dataclass(frozen=True)
class OrderResponse:
    """What permuting the tokens between the first and the last one changes, relative to how predictions differ.

    `moved` compares each prediction with that of the same token at its new place (`per_position`), or those of whole
    sequences; `context` is what exchanging these tokens for others changes at the first and last place or in all.
    `order` says by how many standard deviations the same tokens stand next to each other more often than by chance, and
    `placed` how surely a token tells its position. `one_row` says that a single row of a table of positions is
    added to all tokens.
    """

    name: str
    positions: int
    per_position: bool
    moved: float
    context: float
    order: float
    placed: float
    one_row: bool = False


@probe
def order_response(sandbox: Sandbox, attention: AttentionScores, structure: RecordedStructure | None) -> OrderResponse:
    """Permute the tokens of a sequence, and compare the predictions of the same tokens."""
    if not attention.attentions:
        raise NotApplicable("the model has no attention")
    jittered(sandbox.model)
    batch = few_samples(sandbox)
    found: tuple[Stream, tuple[bool, float, float]] | None = None
    for training in (False, True):  # some programs have a loss in one mode only
        with sandbox.mode(training), user_code(passing=(NotApplicable,) if training else ()):
            tape = record(sandbox, batch, hold_modes=True)
            stream = _tokens(batch, tape)
            found = stream, _response(sandbox, batch, tape, stream)
        if found is not None:
            one_row = structure is not None and structure.one_row
            return OrderResponse(found[0].name, found[0].length, *found[1], *_order_of(sandbox, found[0]), one_row)
    raise NotApplicable("the program cannot be recorded with a few samples in either mode")


def _tokens(batch: Batch, tape: Tape) -> Stream:
    """Return the sequence of tokens that the prediction is computed from."""
    used = sources_of(tape)
    found = [s for s in streams(batch, batch.size) if s.name in used and not s.is_real and s.time_dim == 1]
    found = [s for s in found if s.length >= FEWEST]
    if len(found) != 1:
        raise NotApplicable("the prediction is not computed from one sequence of tokens")
    return found[0]


def _response(sandbox: Sandbox, batch: Batch, tape: Tape, stream: Stream) -> tuple[bool, float, float]:
    order = torch.arange(stream.length)
    order[1:-1] = order[1:-1].roll(2)
    own = prediction_of(tape)
    changed = (batch, _permuted(batch, stream, order), _others(batch, stream))
    after = [_predicted(sandbox, one, tape) for one in changed]
    if any(value.shape != own.shape for value in after) or float(change_of(own, after[0]).max()) > 0:
        raise NotApplicable("the prediction is another one in a second run, so nothing can be compared")
    for seen in compared(tape, batch.size):
        if seen.prediction.shape[1] == stream.length:
            expected = seen.prediction[:, order]
            moved = float(change_of(expected.flatten(0, 1), seen.read(after[1]).flatten(0, 1)).max())
            ends = [0, stream.length - 1]
            apart = (seen.prediction[:, ends].flatten(0, 1), seen.read(after[2])[:, ends].flatten(0, 1))
            return True, moved, float(change_of(*apart).max())
    if own.shape[0] != batch.size:
        raise NotApplicable("the predictions are neither one per sample nor one per position")
    return False, float(change_of(own, after[1]).max()), float(change_of(own, after[2]).max())


def _permuted(batch: Batch, stream: Stream, order: torch.Tensor) -> Batch:
    """Return the batch with its tokens, and masks of the same positions, in another order."""

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
        is_mask = name != stream.name and tensor.dim() == 2 and tensor.shape == stream.raw.shape
        is_mask = is_mask and bool(((tensor == 0) | (tensor == 1)).all())
        return tensor[:, order] if name == stream.name or is_mask else tensor

    return batch.map_inputs(change)


def _others(batch: Batch, stream: Stream) -> Batch:
    inner = slice(1, stream.length - 1)
    return exchanged(batch, stream, dict.fromkeys(range(stream.raw.shape[0]), inner))


def _predicted(sandbox: Sandbox, batch: Batch, tape: Tape) -> torch.Tensor:
    return prediction_of(record(sandbox, batch, step=tape.is_step, seed=tape.seed, hold_modes=True))


def _order_of(sandbox: Sandbox, stream: Stream) -> tuple[float, float]:
    """Return how much more often tokens are neighbors than by chance, and how surely a token tells its place."""
    named = [(name_of(path), t) for batch in sandbox.batches(BATCHES) for path, t in leaves(batch.raw)]
    tokens = torch.cat([t for name, t in named if name == stream.name and t.shape[1:] == stream.raw.shape[1:]])
    tokens = tokens.cpu().long()
    rising = tokens.diff(dim=1)
    if bool((rising >= 0).all()) or bool((rising <= 0).all()):  # a set that is sorted
        return 0.0, 0.0
    draws = torch.rand((SHUFFLES, *tokens.shape), generator=torch.Generator().manual_seed(0))
    filler = tokens == tokens.flatten().mode().values  # which stays where it is
    places = filler.int().argsort(dim=1, stable=True)
    shuffled = [
        _pairs(tokens.scatter(1, places, tokens.gather(1, draw.masked_fill(filler, 2).argsort(1)))) for draw in draws
    ]
    chance = torch.tensor(shuffled, dtype=torch.float64)
    order = (_pairs(tokens) - float(chance.mean())) / max(float(chance.std()), 1e-9)
    counts = torch.stack([torch.bincount(column, minlength=int(tokens.max()) + 1) for column in tokens.T]).double()
    known = counts.sum(0) > 0
    return order, float(counts.amax(0).sum() / counts[:, known].sum())


def _pairs(tokens: torch.Tensor) -> float:
    """Return how often two samples or places have the same pair of neighbors; the most frequent token fills up."""
    one, other = tokens[:, :-1].flatten(), tokens[:, 1:].flatten()
    filler = tokens.flatten().mode().values
    pairs = (one * (int(tokens.max()) + 1) + other)[(one != filler) & (other != filler)]
    return float(pairs.unique(return_counts=True)[1].double().square().sum())
