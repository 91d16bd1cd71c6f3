"""Replace one sample and see whether the outputs of the others change."""

from __future__ import annotations

from dataclasses import replace

import torch

from nbdebug.errors import Cancelled, NotApplicable, OutOfTime
from nbdebug.evidence import BatchMixing, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.layout import change_of, spill, steady_prime
from nbdebug.twin.locate import Place, Recording, aligned, first_place, jittered, record
from nbdebug.twin.samples import Samples, samples_of

__all__ = ["batch_mixing", "reference_run", "settle_and_shake"]

TELLS = 1e-4  # relative change of an untouched sample that no rounding explains
ADDED = 0.5  # of the features at most are about the whole batch where such numbers are added to a sample's own


@probe
def batch_mixing(twin: Twin, trial: TrialRun) -> BatchMixing:
    """Replace one sample of a batch and compare the outputs of the others, module by module."""
    require_run(trial)
    samples = samples_of(twin)
    settle_and_shake(twin, samples)
    found = _mixing(twin, samples)
    if samples.sure or found.influence <= TELLS:
        return found
    width = next((t.shape[1] for t in samples.batch.inputs.values() if t.dim() > 1), 0)
    try:  # mixed also when the second dimension is taken for the samples: then it is wrong in either reading
        either = _mixing(twin, Samples(samples.batch, 1, int(width), False)).influence > TELLS
    except NotApplicable:
        either = False
    return replace(found, sure=either)


def settle_and_shake(twin: Twin, samples: Samples) -> None:
    """Give lazy layers their parameters, then shake all of them: what begins at zero hides what lies before it."""
    with twin.mode(training=False), torch.no_grad():
        reference_run(twin, samples)
    jittered(twin.model)


def _mixing(twin: Twin, samples: Samples) -> BatchMixing:
    with twin.mode(training=False), torch.no_grad():
        samples, reference, whole = reference_run(twin, samples)
        if reference.predicted is None:
            raise NotApplicable("the model returns no tensor")
        if samples.count < 3:
            raise NotApplicable(
                f"the batch has {samples.count} samples; 3 are needed to test whether one affects another"
            )
        again = record(twin, samples.batch, whole=whole)
        changed, masks = _changed(twin, samples, reference, whole)
    noise = _spill_of([reference, again], [torch.zeros(samples.count, dtype=torch.bool)], samples.count)
    influence = _spill_of([reference, *changed], masks, samples.count)
    if influence is None or noise is None:
        raise NotApplicable("the output has no batch dimension")
    place = _first(reference, changed, again, masks, samples.count) if influence > TELLS else None
    if place is not None and place.path == "model" and place.before:
        raise NotApplicable("your code mixes the samples before the model receives them")
    return BatchMixing(
        influence=influence,
        noise=noise,
        first=place.path if place else "",
        first_module=place.module if place else "",
        before=place.before if place else False,
        place=str(place) if place else "",
        replaced=int(masks[0].nonzero()[0]),
        pairs=samples.count - 1,
        sure=samples.sure,
        batch_statistics=_uses_batch_statistics(twin, place),
        added=place is not None and _only_adds(twin, samples, reference, changed, masks, whole),
    )


def reference_run(twin: Twin, samples: Samples) -> tuple[Samples, Recording, bool]:
    """Run as few samples as tell them from other dimensions; all of them where the model wants its batch size."""
    shapes = {n for p in twin.model.parameters() if not torch.nn.parameter.is_lazy(p) for n in p.shape}
    few = samples.head(steady_prime(samples.count, samples.lengths | shapes))
    attempts = [(few, False), (few, True), (samples, False), (samples, True)]
    for chosen, whole in attempts if twin.compute_loss is not None else attempts[::2]:
        try:
            return chosen, record(twin, chosen.batch, whole=whole), whole
        except (Cancelled, OutOfTime, NotApplicable):
            raise
        except Exception:
            continue
    raise NotApplicable("the model fails in eval mode; see forward-fails")


def _changed(
    twin: Twin, samples: Samples, reference: Recording, whole: bool
) -> tuple[list[Recording], list[torch.Tensor]]:
    """Replace one sample at a time, by its neighbor and by nonsense; what does not run or fit is left out."""
    last = samples.count - 1
    variants: list[tuple[int, Batch]] = [(k, samples.replaced(k, k - 1)) for k in sorted({last, last // 2, 1})]
    variants += [(k, samples.distorted(k)) for k in sorted({last, last // 2})]
    runs, masks = list[Recording](), list[torch.Tensor]()
    for index, batch in variants:
        try:
            run = record(twin, batch, whole=whole)
        except (Cancelled, OutOfTime):
            raise
        except Exception:
            continue
        if _shape(run) == _shape(reference):
            runs.append(run)
            masks.append(torch.arange(samples.count) == index)
    if not runs:
        raise NotApplicable("replacing any sample changes the shape of the output")
    return runs, masks


def _shape(recording: Recording) -> tuple[int, ...] | None:
    return tuple(recording.predicted.shape) if recording.predicted is not None else None


def _spill_of(recordings: list[Recording], masks: list[torch.Tensor], count: int) -> float | None:
    """Give the largest change of an untouched sample in any output that has a dimension for the samples."""
    reference, *others = ([t for t in r.outputs if t.is_floating_point()] for r in recordings)
    if any([t.shape for t in other] != [t.shape for t in reference] for other in others):
        return None
    rows = zip(reference, *others, strict=True)
    found = [spill([(before, after) for after in rest], masks, count) for before, *rest in rows]
    return max((value for value in found if value is not None), default=None)


def _first(
    reference: Recording, changed: list[Recording], again: Recording, masks: list[torch.Tensor], count: int
) -> Place | None:
    """Give the first place where an untouched sample changes by more than repeating changes it."""
    nothing = torch.zeros(count, dtype=torch.bool)

    def mixes(values: tuple[torch.Tensor, ...]) -> bool:
        before, repeated, *after = values
        outside = spill([(before, value) for value in after], masks, count)
        if outside is None or outside <= TELLS:
            return False
        return outside > 10 * (spill([(before, repeated)], [nothing], count) or 0.0)

    return first_place([reference, again, *changed], mixes)


def _only_adds(
    twin: Twin, samples: Samples, reference: Recording, changed: list[Recording], masks: list[torch.Tensor], whole: bool
) -> bool:
    """Whether the first mixed tensor only holds numbers about the whole batch beside the sample's own, as critics do.

    Then most of its features do not change with the other samples, and none with the order in which they come. What
    mixes by mistake leaves nothing of the sample's own, or depends on who stands where.
    """
    order = torch.cat([torch.zeros(1, dtype=torch.long), torch.arange(1, samples.count).roll(1)])
    with twin.mode(training=False), torch.no_grad():
        turned = record(twin, samples.map(lambda _, t: t[order]), whole=whole)
    for before, other_order, *after in aligned([reference, turned, *changed]):
        for one, moved, *rest in zip(before.tensors, other_order.tensors, *(e.tensors for e in after), strict=True):
            if one.dim() < 2 or len(one) != samples.count or any(t.shape != one.shape for t in (moved, *rest)):
                continue
            pairs = zip(rest, masks, strict=True)
            felt = torch.stack([change_of(one, t)[~mask].flatten(1).amax(0) for t, mask in pairs]).amax(0) > TELLS
            if bool(felt.any()):
                return float(felt.double().mean()) <= ADDED and float(change_of(one[order], moved).max()) <= TELLS
    return False


def _uses_batch_statistics(twin: Twin, place: Place | None) -> bool:
    """Whether the place is a batch normalization that was told to keep no statistics of its own."""
    module = dict(twin.model.named_modules()).get(place.path) if place is not None and not place.before else None
    return isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and not module.track_running_stats
