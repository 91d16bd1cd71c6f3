"""A masked language model that is asked for what it sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.hidden_inputs import HiddenInputs
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.compared_positions import Compared, compared
from nbdebug.experiments.sample_exchange import samples_of
from nbdebug.experiments.tape import record
from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox

__all__ = ["MaskedTokens", "masked_tokens", "visible_tokens_predicted"]

RARE, FREQUENT = 0.03, 0.6  # shares of the tokens between which a mask token is looked for
SAME = 0.98  # of the targets at visible tokens, which must be these tokens


@dataclass(frozen=True)
class MaskedTokens:
    """A token that stands scattered where others belong, and which targets count in the loss.

    `visible` is the share of the counted targets that the model sees at their position, `uncounted` the share of the
    masked tokens whose target does not count, and `counted` the share of all positions that count.
    """

    token: int
    share: float
    visible: float
    uncounted: float
    counted: float
    where: str


@probe(ops=("embedding",))
def masked_tokens(sandbox: Sandbox, trial: TrialRun | None) -> MaskedTokens:
    """Compare the tokens that the model reads with the targets that count at the same positions."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = samples_of(sandbox).head(32).batch
    step = sandbox.train_step is not None
    recording = run_recorded(sandbox, batch, step=step)
    looked_up = list(_looked_up(recording))
    tape = record(sandbox, batch, step=step) if looked_up else None
    for tokens, module in looked_up:
        for seen in compared(tape, tokens.shape[0]) if tape is not None else ():
            found = _masked(tokens, seen, module)
            if found is not None:
                return found
    raise NotApplicable("no token stands in the place of those that are to be predicted")


def _looked_up(recording: Recording) -> Iterator[tuple[torch.Tensor, str]]:
    """Yield the tokens that embeddings look up, each with the module of the embedding."""
    for op in recording.ops:
        given = op.args[0] if op.name == "embedding" and op.args else None
        tokens = recording.tensor_of(given)
        if tokens is not None and tokens.dim() == 2 and tokens.shape[1] >= 4:
            yield tokens, op.module


def _masked(tokens: torch.Tensor, seen: Compared, where: str) -> MaskedTokens | None:
    target, counted = seen.target[..., 0], seen.counted
    if seen.target.shape[2] != 1 or tokens.shape != target.shape or not bool(counted.any()):
        return None
    asked = set(target[counted].tolist())
    values, counts = tokens.unique(return_counts=True)
    shares = {int(v): int(n) / tokens.numel() for v, n in zip(values, counts, strict=True)}
    fitting = [v for v, share in shares.items() if RARE < share < FREQUENT and v not in asked]
    for token in sorted(fitting, key=lambda v: -shares[v]):
        blank = tokens == token
        inside = (blank[:, :-1] & ~blank[:, 1:]).any(1) & (blank.diff(dim=1) != 0).sum(1).gt(2)
        visible = counted & ~blank
        same = float((tokens == target)[visible].double().mean()) if bool(visible.any()) else 1.0
        if float(inside.double().mean()) < 0.5 or same < SAME:
            continue
        return MaskedTokens(
            token,
            shares[token],
            float(visible.sum() / counted.sum()),
            float((blank & ~counted).sum() / blank.sum()),
            float(counted.double().mean()),
            where,
        )
    return None


@check(explains=("initial-loss-off", "target-leaks-into-inputs", "loss-metric-disagree"))
def visible_tokens_predicted(
    tokens: MaskedTokens | None,
    inputs: HiddenInputs | None,
    *,
    visible: float = 0.5,  # of the targets that count; BERT leaves a tenth of them visible on purpose
    uncounted: float = 0.2,  # of the masked tokens; our choice, 0 where all of them are predicted
    compared: float = 0.9,  # of what is hidden, which the target must hold; our choice, less where a part is cut out
) -> Iterator[Finding]:
    """The loss of a masked model counts visible tokens or patches instead of masked ones.

    nbdebug looks for a token that stands scattered among others and is never a target, which is what a mask token does,
    and compares where it stands with where the loss has a gradient. Of a model that reconstructs its own input, it
    finds what a random draw hides by the gradient of the prediction, and what the loss counts by that of the target.

    Why it matters: a token that is visible is copied. The loss falls to almost zero, and nothing is learned about
    context.

    What to try: set the labels of all tokens that are not masked to `ignore_index`, and draw the mask of inputs and
    labels once.
    """
    if tokens is None and inputs is None:
        raise NotApplicable("nothing is hidden from the model that it is to predict")
    if (
        inputs is not None
        and inputs.visible > visible
        and 1 - inputs.counted > uncounted
        and inputs.compared >= compared
    ):
        yield _unhidden(inputs, visible)
    if tokens is None or tokens.visible <= visible or tokens.uncounted <= uncounted:
        return
    yield Finding(
        f"{tokens.visible:.0%} of the targets that count are visible tokens, while {tokens.uncounted:.0%} of the "
        f"masked tokens (id {tokens.token}, {tokens.share:.0%} of all) do not count.",
        where=tokens.where,
        severity="suspect",
        evidence={
            "share of counted targets that are visible": tokens.visible,
            "share of masked tokens that do not count": tokens.uncounted,
            "share of positions that count": tokens.counted,
            "threshold": visible,
            "source": "Devlin et al. 2019, BERT, section 3.1: only masked tokens are predicted",
        },
        remedies=(Remedy("Ignore what is not masked.", "labels[input_ids != mask_token_id] = -100"),),
    )


def _unhidden(inputs: HiddenInputs, threshold: float) -> Finding:
    return Finding(
        f"{inputs.hidden:.0%} of `{inputs.name}` is hidden from the model at random, but {1 - inputs.counted:.0%} of "
        f"these values do not count in the loss, and {inputs.visible:.0%} of those that count are visible.",
        where=inputs.name,
        severity="suspect",
        evidence={
            "share of the input that is hidden": inputs.hidden,
            "share of hidden values that count": inputs.counted,
            "share of counted values that are visible": inputs.visible,
            "threshold": threshold,
            "source": "He et al. 2022, Masked Autoencoders, section 3: the loss is computed on masked patches",
        },
        remedies=(Remedy("Count what is hidden.", "loss = (error * hidden).sum() / hidden.sum()"),),
    )
