"""Exchange samples of a batch: how far outputs of the others change, and in which module first."""

from __future__ import annotations

import torch

from nbdebug.core.torch_compat import BatchNorm
from nbdebug.errors import NotApplicable
from nbdebug.experiments.batch_dim import change_of, spill, steady_prime
from nbdebug.experiments.locate_module import Place, Recording, aligned, first_place, jittered, record
from nbdebug.experiments.sample_exchange import Samples
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import user_code

__all__ = [
    "TELLS",
    "adds_batch_features",
    "changed_runs",
    "first_mixing",
    "reference_run",
    "settle_and_shake",
    "spill_of",
    "uses_batch_statistics",
]

TELLS = 1e-4  # relative change of an untouched sample that no rounding explains
ADDED = 0.5  # of the features at most are about the whole batch where such numbers are added to a sample's own


def settle_and_shake(sandbox: Sandbox, samples: Samples) -> None:
    """Return lazy layers their parameters, then shake all of them: what begins at zero hides what lies before it."""
    with sandbox.mode(training=False), torch.no_grad():
        reference_run(sandbox, samples, inner=False)
    jittered(sandbox.model)


def reference_run(sandbox: Sandbox, samples: Samples, *, inner: bool = True) -> tuple[Samples, Recording, bool]:
    """Run as few samples as tell them from other dimensions; all of them where the model wants its batch size."""
    shapes = {n for p in sandbox.model.parameters() if not torch.nn.parameter.is_lazy(p) for n in p.shape}
    few = samples.head(steady_prime(samples.count, samples.lengths | shapes))
    attempts = [(few, False), (few, True), (samples, False), (samples, True)]
    for chosen, whole in attempts if sandbox.compute_loss is not None else attempts[::2]:
        with user_code(passing=(NotApplicable,)):
            return chosen, record(sandbox, chosen.batch, whole=whole, inner=inner), whole
    raise NotApplicable("the model fails in eval mode; see forward-fails")


def changed_runs(
    sandbox: Sandbox, samples: Samples, reference: Recording, whole: bool, *, inner: bool = True
) -> tuple[list[Recording], list[torch.Tensor]]:
    """Replace one sample at a time, by its neighbor and by nonsense; what does not run or fit is left out."""
    last = samples.count - 1
    variants: list[tuple[int, Batch]] = [(k, samples.replaced(k, k - 1)) for k in sorted({last, last // 2, 1})]
    variants += [(k, samples.distorted(k)) for k in sorted({last, last // 2})]
    runs, masks = list[Recording](), list[torch.Tensor]()
    for index, batch in variants:
        with user_code(passing=()):
            run = record(sandbox, batch, whole=whole, inner=inner)
            if _shape(run) == _shape(reference):
                runs.append(run)
                masks.append(torch.arange(samples.count) == index)
    if not runs:
        raise NotApplicable("replacing any sample changes the shape of the output")
    return runs, masks


def _shape(recording: Recording) -> tuple[int, ...] | None:
    return tuple(recording.predicted.shape) if recording.predicted is not None else None


def spill_of(recordings: list[Recording], masks: list[torch.Tensor], count: int) -> float | None:
    """Return the largest change of an untouched sample in any output that has a dimension for the samples."""
    reference, *others = ([t for t in r.outputs if t.is_floating_point()] for r in recordings)
    if any([t.shape for t in other] != [t.shape for t in reference] for other in others):
        return None
    rows = zip(reference, *others, strict=True)
    found = [spill([(before, after) for after in rest], masks, count) for before, *rest in rows]
    return max((value for value in found if value is not None), default=None)


def first_mixing(
    reference: Recording, changed: list[Recording], again: Recording, masks: list[torch.Tensor], count: int
) -> Place | None:
    """Return the first place where an untouched sample changes by more than repeating changes it."""
    nothing = torch.zeros(count, dtype=torch.bool)

    def mixes(values: tuple[torch.Tensor, ...]) -> bool:
        before, repeated, *after = values
        outside = spill([(before, value) for value in after], masks, count)
        if outside is None or outside <= TELLS:
            return False
        return outside > 10 * (spill([(before, repeated)], [nothing], count) or 0.0)

    return first_place([reference, again, *changed], mixes)


def adds_batch_features(
    sandbox: Sandbox,
    samples: Samples,
    reference: Recording,
    changed: list[Recording],
    masks: list[torch.Tensor],
    whole: bool,
) -> bool:
    """Whether the first mixed tensor only holds numbers about the whole batch beside the sample's own, as critics do.

    Then most of its features do not change with the other samples, and none with the order in which they come. What
    mixes by mistake leaves nothing of the sample's own, or depends on who stands where.
    """
    order = torch.cat([torch.zeros(1, dtype=torch.long), torch.arange(1, samples.count).roll(1)])
    with sandbox.mode(training=False), torch.no_grad():
        turned = record(sandbox, samples.map(lambda _, t: t[order]), whole=whole)
    for before, other_order, *after in aligned([reference, turned, *changed]):
        for one, moved, *rest in zip(before.tensors, other_order.tensors, *(e.tensors for e in after), strict=True):
            if one.dim() < 2 or len(one) != samples.count or any(t.shape != one.shape for t in (moved, *rest)):
                continue
            pairs = zip(rest, masks, strict=True)
            felt = torch.stack([change_of(one, t)[~mask].flatten(1).amax(0) for t, mask in pairs]).amax(0) > TELLS
            if bool(felt.any()):
                return float(felt.double().mean()) <= ADDED and float(change_of(one[order], moved).max()) <= TELLS
    return False


def uses_batch_statistics(sandbox: Sandbox, place: Place | None) -> bool:
    """Whether the place is a batch normalization that was told to keep no statistics of its own."""
    module = dict(sandbox.model.named_modules()).get(place.path) if place is not None and not place.before else None
    return isinstance(module, BatchNorm) and not module.track_running_stats
