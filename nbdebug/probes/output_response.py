"""Do the outputs change at all when the inputs do?"""

from __future__ import annotations

import torch

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import OutputResponse, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.births import is_bad
from nbdebug.twin.layout import relative_change
from nbdebug.twin.locate import Place, Recording, aligned, jittered, place_at, record
from nbdebug.twin.samples import Samples, runnable, runs, samples_of

__all__ = ["output_response"]

SAMPLES = 32
SETTLING = 30  # passes, after which statistics with the usual momentum of 0.1 are those of the data
NOTHING = 1e-6  # relative change that float32 cannot tell from none


@probe
def output_response(twin: Twin, trial: TrialRun) -> OutputResponse:
    """Compare the outputs for different inputs, module by module, in eval mode."""
    require_run(trial)
    samples = samples_of(twin)
    with twin.mode(training=False), torch.no_grad():
        whole = _needs_loss(twin, samples.batch)
        samples = runnable(samples, SAMPLES, twin.run if whole else twin.forward)
        others = _others(twin, samples)
        pair = _pair(twin, samples.batch, others, whole)
        if _response(pair) <= NOTHING and _settled_statistics(twin, samples.batch, whole):
            pair = _pair(twin, samples.batch, others, whole)
        response, shaken = _response(pair), False
        if response <= NOTHING:
            jittered(twin.model)
            after = _pair(twin, samples.batch, others, whole)
            shaken = _response(after) > NOTHING
            pair = after
        place = _where_lost(pair) if response <= NOTHING and not shaken else None
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


def _settled_statistics(twin: Twin, batch: Batch, whole: bool) -> bool:
    """Let batch normalization see the data: with the statistics it begins with, raw inputs may drive it to its ends."""
    if not any(getattr(module, "running_mean", None) is not None for module in twin.model.modules()):
        return False
    with twin.mode(training=True):
        for _ in range(SETTLING):
            (twin.run if whole else twin.forward)(batch)
    return True


def _others(twin: Twin, samples: Samples) -> list[Batch]:
    """Give batches of the same shape with other inputs: strange ones, and a batch from further on."""

    def strange(_: str, tensor: torch.Tensor) -> torch.Tensor:
        rolled = tensor.roll(1, 0)
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return rolled
        return rolled * -1.5 + tensor.abs().mean() * (1 + torch.rand_like(tensor.abs()))

    found = [samples.map(strange)]
    later = twin.batches(2)[1:]
    if later and later[0].size >= samples.count and samples.axis == 0:
        found.append(later[0].head(samples.count))
    same = {name: tensor.shape for name, tensor in samples.batch.inputs.items()}
    fitting = [b for b in found if {name: t.shape for name, t in b.inputs.items()} == same]
    return [b for b in fitting if any(not torch.equal(t, samples.batch.inputs[n]) for n, t in b.inputs.items())]


def _needs_loss(twin: Twin, batch: Batch) -> bool:
    """Whether the model cannot be called with what the batch holds, so that only compute_loss knows how."""
    return twin.compute_loss is not None and not runs(twin.forward, batch)


def _pair(twin: Twin, batch: Batch, others: list[Batch], whole: bool) -> list[Recording]:
    recordings = [record(twin, batch, whole=whole)]
    for other in others:
        try:
            recordings.append(record(twin, other, whole=whole))
        except NbdebugError:
            raise
        except Exception:
            continue  # inputs that are too strange for the model say nothing
    if len(recordings) < 2:
        raise NotApplicable("there are no other inputs of the same shape to compare with")
    if any(is_bad(t) == "NaN" for r in recordings for t in r.outputs):
        raise NotApplicable("the outputs contain NaN; see non-finite-forward")
    if not any(t.is_floating_point() or t.is_complex() for t in recordings[0].outputs):
        raise NotApplicable("the outputs are not real-valued")
    return recordings


def _response(recordings: list[Recording]) -> float:
    """Give the largest relative change of any output; another shape is a change, too."""
    reference, *rest = (recording.outputs for recording in recordings)
    if any([t.shape for t in other] != [t.shape for t in reference] for other in rest):
        return float("inf")
    return max(relative_change(a, b) for other in rest for a, b in zip(reference, other, strict=True))


def _where_lost(recordings: list[Recording]) -> Place | None:
    """Give the place right behind the last one that still responds to the inputs."""
    events = list(aligned(recordings))
    alive = -1
    for index, row in enumerate(events):
        for reference, *rest in zip(*(event.tensors for event in row), strict=True):
            if any(t.shape != reference.shape or relative_change(reference, t) > NOTHING for t in rest):
                alive = index
    return place_at(events[alive + 1][0]) if 0 <= alive + 1 < len(events) else None
