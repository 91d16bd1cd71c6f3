"""The model gives the same output for every input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.batch_dim import relative_change
from nbdebug.experiments.locate_module import Place, Recording, aligned, jittered, place_at, record
from nbdebug.experiments.nan_origin import is_bad
from nbdebug.experiments.sample_exchange import Samples, runnable, runs, samples_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import user_code

__all__ = ["OutputResponse", "output_response", "outputs_identical"]


@dataclass(frozen=True)
class OutputResponse:
    """How much the outputs change from one batch to another, relative to their size.

    `shaken` says that they are the same only until the parameters are moved a little, as behind a layer that begins at
    zero.
    """

    response: float
    inputs_differ: bool
    shaken: bool
    samples: int
    first: str = ""
    first_module: str = ""
    place: str = ""
    value: float = 0.0


SAMPLES = 32
SETTLING = 30  # passes, after which statistics with the usual momentum of 0.1 are those of the data
NOTHING = 1e-6  # relative change that float32 cannot tell from none


@probe
def output_response(sandbox: Sandbox, trial: TrialRun) -> OutputResponse:
    """Compare the outputs for different inputs, module by module, in eval mode."""
    require_run(trial)
    samples = samples_of(sandbox)
    with sandbox.mode(training=False), torch.no_grad():
        whole = _needs_loss(sandbox, samples.batch)
        samples = runnable(samples, SAMPLES, sandbox.run if whole else sandbox.forward)
        others = _others(sandbox, samples)
        pair = _pair(sandbox, samples.batch, others, whole)
        if _response(pair) <= NOTHING and _settled_statistics(sandbox, samples.batch, whole):
            pair = _pair(sandbox, samples.batch, others, whole)
        response, shaken = _response(pair), False
        if response <= NOTHING:
            jittered(sandbox.model)
            after = _pair(sandbox, samples.batch, others, whole)
            shaken = _response(after) > NOTHING
            pair = after
        is_lost = response <= NOTHING and not shaken
        place = _where_lost(_pair(sandbox, samples.batch, others, whole, inner=True)) if is_lost else None
    first = pair[0].outputs[0]
    return OutputResponse(
        response=response,
        inputs_differ=bool(others),
        shaken=shaken,
        samples=samples.count,
        first=place.path if place else "",
        first_module=place.module if place else "",
        place=str(place) if place else "",
        value=float(first.double().mean()) if first.numel() and not first.is_complex() else 0.0,
    )


def _settled_statistics(sandbox: Sandbox, batch: Batch, whole: bool) -> bool:
    """Let batch normalization see the data: with the statistics it begins with, raw inputs may drive it to its ends."""
    if not any(getattr(module, "running_mean", None) is not None for module in sandbox.model.modules()):
        return False
    with sandbox.mode(training=True):
        for _ in range(SETTLING):
            (sandbox.run if whole else sandbox.forward)(batch)
    return True


def _others(sandbox: Sandbox, samples: Samples) -> list[Batch]:
    """Return batches of the same shape with other inputs: strange ones, and a batch from further on."""

    def strange(_: str, tensor: torch.Tensor) -> torch.Tensor:
        rolled = tensor.roll(1, 0)
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return rolled
        return rolled * -1.5 + tensor.abs().mean() * (1 + torch.rand_like(tensor.abs()))

    found = [samples.map(strange)]
    later = sandbox.batches(2)[1:]
    if later and later[0].size >= samples.count and samples.axis == 0:
        found.append(later[0].head(samples.count))
    same = {name: tensor.shape for name, tensor in samples.batch.inputs.items()}
    fitting = [b for b in found if {name: t.shape for name, t in b.inputs.items()} == same]
    return [b for b in fitting if any(not torch.equal(t, samples.batch.inputs[n]) for n, t in b.inputs.items())]


def _needs_loss(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the model cannot be called with what the batch holds, so that only compute_loss knows how."""
    return sandbox.compute_loss is not None and not runs(sandbox.forward, batch)


def _pair(sandbox: Sandbox, batch: Batch, others: list[Batch], whole: bool, *, inner: bool = False) -> list[Recording]:
    recordings = [record(sandbox, batch, whole=whole, inner=inner)]
    for other in others:
        with user_code():  # inputs that are too strange for the model say nothing
            recordings.append(record(sandbox, other, whole=whole, inner=inner))
    if len(recordings) < 2:
        raise NotApplicable("there are no other inputs of the same shape to compare with")
    if any(is_bad(t) == "NaN" for r in recordings for t in r.outputs):
        raise NotApplicable("the outputs contain NaN; see non-finite-forward")
    if not any(t.is_floating_point() or t.is_complex() for t in recordings[0].outputs):
        raise NotApplicable("the outputs are not real-valued")
    return recordings


def _response(recordings: list[Recording]) -> float:
    """Return the largest relative change of any output; another shape is a change, too."""
    reference, *rest = (recording.outputs for recording in recordings)
    if any([t.shape for t in other] != [t.shape for t in reference] for other in rest):
        return float("inf")
    return max(relative_change(a, b) for other in rest for a, b in zip(reference, other, strict=True))


def _where_lost(recordings: list[Recording]) -> Place | None:
    """Return the place right behind the last one that still responds to the inputs."""
    events = list(aligned(recordings))
    alive = -1
    for index, row in enumerate(events):
        for reference, *rest in zip(*(event.tensors for event in row), strict=True):
            if any(t.shape != reference.shape or relative_change(reference, t) > NOTHING for t in rest):
                alive = index
    return place_at(events[alive + 1][0]) if 0 <= alive + 1 < len(events) else None


@check(
    basis="statistic",
    explains=("inputs-ignored", "cannot-overfit-batch", "model-ignores-inputs", "worse-than-baseline", "dead-units"),
)
def outputs_identical(
    outputs: OutputResponse,
    *,
    response: float = 1e-6,  # float32 resolution
) -> Iterator[Finding]:
    """The model gives the same output for every input.

    nbdebug compares the outputs for one batch with those for other inputs, in eval mode and with the same RNG state,
    and finds the module after which the inputs no longer make a difference.

    Why it matters: a model whose outputs do not depend on the inputs can learn at most the class frequencies or the
    target mean.

    What to try: inspect the module named: units that are all dead or saturated, a multiplication by zero, a softmax
    over a dimension of size 1, or a variable that does not hold the data.
    """
    if not outputs.inputs_differ:
        raise NotApplicable("all inputs are identical; see constant-inputs")
    if outputs.response > response:
        return
    if outputs.shaken:
        return  # zero-initialized on purpose: after one step the outputs differ
    yield Finding(
        f"The outputs of {outputs.samples} samples are all about {outputs.value:.4g}, whatever the input (relative "
        f"change {outputs.response:.1g}). The signal is lost {outputs.place or 'in the model'}.",
        where=outputs.first or "model",
        evidence={
            "response": outputs.response,
            "value": outputs.value,
            "threshold": response,
            "source": "float32 precision",
        },
        remedies=(
            Remedy("Print the inputs and outputs of this module for two different samples."),
            Remedy("If it is an activation, check whether all its units are dead or saturated."),
        ),
    )
