"""Whether a language model is asked for the token that ends its texts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.positions import Match, matches
from nbdebug.experiments.sample_exchange import samples_of
from nbdebug.experiments.tape import record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["LastTokens", "last_tokens"]

SAMPLES = 32
AGREES, OTHERS = 0.98, 0.9  # shares of targets that equal the next token, and that equal any other one


@dataclass(frozen=True)
class LastTokens:
    """The commonest last token of the texts that a mask tells from padding, and whether its prediction counts.

    `share` is that of the texts that end in it, `counted` that of these whose loss counts it, `before` the same of the
    token before it, and `elsewhere` the number of times that the token counts at any place.
    """

    name: str
    token: int
    texts: int
    share: float
    counted: float
    before: float
    elsewhere: int


@probe
def last_tokens(sandbox: Sandbox, trial: TrialRun | None) -> LastTokens:
    """Compare where texts end, by their mask, with where the loss of the next token has a gradient."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = samples_of(sandbox).head(SAMPLES).batch
    masks = [
        t for t in batch.inputs.values() if t.dim() == 2 and bool(((t == 0) | (t == 1)).all()) and bool((t == 0).any())
    ]
    if not masks:
        raise NotApplicable("no mask of padding is among the inputs")
    for match in matches(batch, record(sandbox, batch), batch.size, least=AGREES, most=OTHERS):
        for mask in masks:
            found = _ends(batch, match, mask.bool())
            if found is not None:
                return found
    raise NotApplicable("the targets are not the next tokens of masked texts")


def _ends(batch: Batch, match: Match, mask: torch.Tensor) -> LastTokens | None:
    stream, counted = match.stream, match.seen.counted.cpu()
    lengths, mask = mask.sum(1).cpu(), mask.cpu()
    prefix = torch.arange(mask.shape[1]) < lengths[:, None]
    if match.offset != 1 or stream.raw.shape != mask.shape or stream.is_real or not torch.equal(mask, prefix):
        return None
    rows = (lengths >= 3).nonzero().flatten()
    if len(rows) < 4:
        return None
    tokens, ends = stream.raw.cpu(), lengths[rows] - 1
    last = tokens[rows, ends]
    token = int(last.mode().values)
    kept = rows[last == token], ends[last == token] - match.offset
    wanted = tokens[:, match.offset : match.offset + counted.shape[1]][:, : counted.shape[1]]
    return LastTokens(
        stream.name,
        token,
        len(rows),
        float((last == token).double().mean()),
        float(counted[kept].double().mean()),
        float(counted[kept[0], kept[1] - 1].double().mean()),
        int(counted[:, : wanted.shape[1]][wanted == token].sum()),
    )
