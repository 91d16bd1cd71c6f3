"""A sequence model that sees the future."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.position_influence import PositionInfluence, StreamInfluence, few_samples
from nbdebug.experiments.batch_dim import spill
from nbdebug.experiments.locate_module import first_place, jittered, record
from nbdebug.experiments.positions import Stream, exchanged
from nbdebug.sandbox import Sandbox
from nbdebug.setup.nested import leaves, name_of
from nbdebug.setup.user_code import required_user_code

__all__ = ["FirstLeak", "causal_leak", "first_leak"]

TELLS = 1e-4


@dataclass(frozen=True)
class FirstLeak:
    """The first module whose outputs at earlier positions change when only later positions are changed."""

    path: str
    place: str


@probe
def first_leak(sandbox: Sandbox, seen: PositionInfluence) -> FirstLeak:
    """Exchange later tokens or time steps, and compare what modules return for the earlier ones."""
    leaking = [stream for stream in seen.streams if _leaks(stream, TELLS)]
    if not leaking or not sandbox.is_loss_known:
        raise NotApplicable("no later position affects an earlier one")
    jittered(sandbox.model)
    batch = few_samples(sandbox)
    found = leaking[0]
    held = [t for path, t in leaves(batch.raw) if isinstance(t, torch.Tensor) and name_of(path) == found.name]
    stream, length = Stream(found.name, held[0], found.sample_dim, found.time_dim), found.positions
    cuts = sorted({length // 4, length // 2, length - 1} - {0})
    rows = range(stream.steps.shape[0])
    batches = [exchanged(batch, stream, dict.fromkeys(rows, slice(cut, length))) for cut in cuts]
    training = seen.mode == "training"
    with sandbox.mode(training), torch.no_grad(), required_user_code("the loss needs a gradient"):
        runs = [record(sandbox, one, whole=True) for one in (batch, batch, *batches)]
    masks = [torch.arange(length) >= cut for cut in cuts]
    nothing = [torch.zeros(length, dtype=torch.bool)]

    def leaks(values: tuple[torch.Tensor, ...]) -> bool:
        before, repeated, *after = values
        early = spill([(before, value) for value in after], masks, length)
        if early is None or early <= TELLS:
            return False
        return early > 10 * (spill([(before, repeated)], nothing, length) or 0.0)

    place = first_place(runs, leaks)
    if place is None:
        raise NotApplicable("no module alone lets later positions affect earlier ones")
    return FirstLeak(place.path, str(place))


def _leaks(stream: StreamInfluence, influence: float) -> bool:
    return stream.is_next_step and stream.target > influence and not stream.is_summary


@check(explains=("initial-loss-off", "loss-metric-disagree"))
def causal_leak(
    seen: PositionInfluence,
    first: FirstLeak | None,
    *,
    influence: float = 1e-3,  # of the predictions' standard deviation; exactly 0 when masked; our choice
) -> Iterator[Finding]:
    """The model sees the future steps that it has to predict.

    Where the targets are the inputs shifted by one step, nbdebug exchanges the later part of the sequences and compares
    the predictions whose targets lie there, in eval mode; then it compares what each module returns.

    Why it matters: the loss quickly falls to almost zero, because the target is part of the input. At generation time
    there is no target to copy, and the outputs are useless.

    What to try: mask future positions in the attention named (is_causal, an upper-triangular mask without its
    diagonal), pad convolutions on the left only, use unidirectional recurrent layers; compare the logits at a position
    with the next token.
    """
    if any(stream.is_next_step and stream.is_shifted for stream in seen.streams):
        return
    for stream in seen.streams:
        if not _leaks(stream, influence):
            continue
        ahead = "the next step" if stream.later <= influence else "later steps"
        where = f"first {first.place}" if first is not None else "where the loss compares them"
        yield Finding(
            f"The model is not causal: exchanging {ahead} of `{stream.name}` changes the predictions of them by up to "
            f"{stream.target:.1%}, {where}. {stream.agreement:.0%} of the targets are the next steps.",
            where=first.path if first is not None else seen.prediction or "model",
            evidence={
                "influence of the target on its prediction": stream.target,
                "influence of later steps": stream.later,
                "offset of the targets": stream.offset,
                "share of targets that are the next step": stream.agreement,
                "threshold": influence,
                "source": "exactly 0 with a causal mask",
            },
            remedies=(
                Remedy("Apply a causal mask.", _mask_code(first), Patch("causal-mask")),
                Remedy("Pad convolutions on the left only.", "F.pad(x, (kernel_size - 1, 0))", Patch("pad-left")),
            ),
            exhibit=Bars(("earlier steps", "the target and later"), (stream.earlier, stream.target), log=True),
        )


def _mask_code(first: FirstLeak | None) -> str:
    """Return how a causal mask is passed where the leak begins: to torch's own module, or to the function."""
    if first is None or "(MultiheadAttention)" not in first.place:
        return "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    made = "mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))\n"
    if first.path.endswith("self_attn"):  # inside of torch's own transformer layer
        return f"{made}output = encoder(x, mask=mask, is_causal=True)"
    return f"{made}output, _ = attention(x, x, x, attn_mask=mask, is_causal=True)"
