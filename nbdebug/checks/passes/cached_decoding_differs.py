"""A cache of keys and values that changes what the model says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.batch_dim import relative_change
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output
from nbdebug.setup.user_code import required_user_code, user_code

__all__ = ["CachedDecoding", "cached_decoding", "cached_decoding_differs"]

PAST, SAMPLES, LENGTH = "past_key_values", 4, 32


@dataclass(frozen=True)
class CachedDecoding:
    """How far the outputs of a sequence in two parts, the first of them cached, are from those of one pass.

    `noise` is the same for two equal passes, `by_token` the change where every token is a part of its own, and `prefix`
    how much the outputs of the first part alone differ from those of the whole.
    """

    change: float
    by_token: float
    prefix: float
    noise: float
    positions: int


@probe
def cached_decoding(sandbox: Sandbox, trial: TrialRun) -> CachedDecoding:
    """Run a sequence in one pass, in two parts and token by token through `past_key_values`."""
    require_run(trial)
    if PAST not in inspect.signature(sandbox.model.forward).parameters:
        raise NotApplicable("the model takes no past_key_values")
    ids = _ids(sandbox.batch())
    length = int(ids.shape[1])
    with sandbox.mode(training=False), torch.no_grad(), required_user_code("no pass with a cache runs ({kind})"):
        whole, again = _outputs(sandbox, [ids]), _outputs(sandbox, [ids])
        prefix = _outputs(sandbox, [ids[:, : length // 2]])
        parts = _outputs(sandbox, [ids[:, : length // 2], ids[:, length // 2 :]])
        single = _outputs(sandbox, list(ids.split(1, 1)))
    if whole.shape != parts.shape or whole.shape != single.shape or whole.shape[:2] != ids.shape:
        raise NotApplicable("the model returns no output for each token")
    begun = relative_change(whole[:, : length // 2], prefix)
    if begun > 1e-3:
        raise NotApplicable("outputs depend on later tokens, so that no prefix can be cached")
    noise = relative_change(whole, again)
    return CachedDecoding(relative_change(whole, parts), relative_change(whole, single), begun, noise, length)


def _ids(batch: Batch) -> torch.Tensor:
    """Return the first words of some samples, up to where the first of them is filled up."""
    found = [t for name, t in batch.inputs.items() if name == "input_ids" and t.dim() == 2]
    if not found or found[0].is_floating_point():
        raise NotApplicable("the batch has no input_ids")
    ids = found[0][:SAMPLES, :LENGTH]
    masks = [t for name, t in batch.inputs.items() if name == "attention_mask" and t.dim() == 2]
    kept = masks[0][:SAMPLES, :LENGTH].bool().all(0) if masks and masks[0].shape == found[0].shape else None
    if kept is not None:
        ids = ids[:, kept]
    if ids.shape[1] < 4:
        raise NotApplicable("the sequences are too short to be taken apart")
    return ids


def _outputs(sandbox: Sandbox, parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the outputs of parts that follow each other, all but the first with what the one before has cached."""
    outputs, past = [], None
    for part in parts:
        given: dict[str, Any] = {"input_ids": part, "use_cache": True} | ({PAST: past} if past is not None else {})
        output = sandbox.model(**given)
        past = getattr(output, PAST, None)
        with user_code():
            past = output[PAST] if past is None and isinstance(output, dict) else past
        main = main_output(output)
        if main is None or (past is None and len(parts) > 1):
            raise NotApplicable("the model returns no past_key_values")
        outputs.append(main)
    return torch.cat(outputs, 1)


@check
def cached_decoding_differs(
    decoding: CachedDecoding,
    *,
    change: float = 1e-2,  # of the standard deviation of the outputs; rounding is below 1e-4; our choice
    noises: float = 10.0,  # times the change between two equal passes; our choice
) -> Iterator[Finding]:
    """Generation with a cache gives other outputs than one pass over the same tokens.

    Where the model takes `past_key_values` and no output depends on a later token, nbdebug runs the same tokens in one
    pass, in two parts, and one by one, in eval mode.

    Why it matters: training never uses the cache, so that the loss is fine and the generated text is not. Positions
    that begin at 0 again, masks of the wrong length and keys that are cached twice are the usual causes.

    What to try: count positions from the length of the cache, extend the attention mask over cached keys, and apply
    rotary embeddings before keys are cached.
    """
    largest = max(decoding.change, decoding.by_token)
    if largest <= max(change, noises * decoding.noise):
        return
    how = "in two parts" if decoding.change >= decoding.by_token else "token by token"
    yield Finding(
        f"The outputs of {decoding.positions} tokens that are decoded {how} with `past_key_values` differ by "
        f"{largest:.2g} standard deviations from those of one pass.",
        where="model",
        severity="bug",
        evidence={
            "change in two parts": decoding.change,
            "change token by token": decoding.by_token,
            "change between equal passes": decoding.noise,
            "threshold": change,
            "source": "a cache stores what one pass would compute again",
        },
        remedies=(
            Remedy("Count positions from the length of the cache.", "positions = past_length + torch.arange(n)"),
        ),
        exhibit=Bars(
            ("two parts", "token by token", "one pass again"), (decoding.change, decoding.by_token, decoding.noise)
        ),
    )
