"""Inputs that do not affect the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.core.torch_compat import TorchDispatchMode
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.padding import PaddingTrial
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.input_responses import InputResponses, is_real
from nbdebug.experiments.locate_module import jittered
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["IgnoredPart", "InputInfluence", "input_influence", "inputs_ignored"]


@dataclass(frozen=True)
class IgnoredPart:
    """A part of the inputs without any influence: a whole key, or indices along one of its dimensions.

    `mask_of` is the input whose padding an ignored one only repeats, as an attention mask does.
    """

    key: str
    part: str  # "input", "column", "channel" or "step"
    indices: tuple[int, ...] = ()
    of: int = 0
    mask_of: str = ""


@dataclass(frozen=True)
class InputInfluence:
    """Which parts of the inputs change nothing when they are exchanged between samples, in either mode."""

    tested: tuple[str, ...]
    ignored: tuple[IgnoredPart, ...]
    batches: int
    by_name: bool  # forward takes a container with names, some of which may be meant for others
    windowed: bool  # the model uses convolutions or pooling, which may leave out what is at the border
    foretells_itself: bool = False  # an input is the target too: the last in the order of foretelling is never needed


READ = "lengths = attention_mask.sum(1)\nlast = outputs[torch.arange(len(outputs)), lengths - 1]"
NOISES = 3.0  # times the difference of two equal runs, as for `padding-dominates`
AT_ONCE = 16  # candidates that are tried one by one when all of them together have an influence


@probe(quick=False)
def input_influence(sandbox: Sandbox, trial: TrialRun, control: Control) -> InputInfluence:
    """Permute each input and column between samples and compare the outputs."""
    require_run(trial)
    sandbox.ready_to_train()
    jittered(sandbox.model)  # what begins at zero on purpose lets influence through after one step
    responses = InputResponses(sandbox, control)
    tested, ignored = list[str](), list[IgnoredPart]()
    for name in responses.names:
        if not responses.varies(name):
            continue
        if responses.responds(lambda key, t, name=name: t.roll(1, 0) if key == name else t):  # type: ignore[misc]
            tested.append(name)
        else:
            ignored.append(IgnoredPart(name, "input", mask_of=_mask_of(responses, name)))
    if not tested:
        raise NotApplicable("no input affects the outputs; see outputs-identical")
    first = responses.batches[0].batch
    windowed = _is_windowed(sandbox, first)
    for name in tested:
        ignored.extend(_ignored_parts(responses, name, windowed))
    named = any(not isinstance(value, (torch.Tensor, list, tuple)) for value in first.args)
    return InputInfluence(
        (*tested, *(p.key for p in ignored if p.part == "input")),
        tuple(ignored), len(responses.batches), named, windowed, _foretells_itself(first),
    )  # fmt: skip


def _mask_of(responses: InputResponses, name: str) -> str:
    """Return the input of integers that a mask of zeros and ones can be read off; "" where there is none."""
    for other in responses.names:
        pairs = list(zip(responses.stacked(name), responses.stacked(other), strict=True))
        if other != name and all(_repeats(mask, tokens) for mask, tokens in pairs):
            return other
    return ""


def _repeats(mask: torch.Tensor, tokens: torch.Tensor) -> bool:
    """Whether a mask is 0 exactly where the other input has one value, its padding."""
    if mask.shape != tokens.shape or tokens.is_floating_point() or bool(((mask != 0) & (mask != 1)).any()):
        return False
    hidden = tokens[mask == 0]
    return bool(hidden.numel()) and torch.equal(mask != 0, tokens != hidden.flatten()[0])


def _foretells_itself(batch: Batch) -> bool:
    """Whether an input is the target as well, as where each column is foretold from those before it."""
    return any(torch.equal(t, one) for t in batch.inputs.values() for one in batch.targets.values())


def _ignored_parts(responses: InputResponses, name: str, windowed: bool) -> list[IgnoredPart]:
    """Look for columns, channels and steps of one input that nothing depends on."""
    tensors = responses.stacked(name)
    if len({t.shape[1:] for t in tensors}) > 1:
        return []
    gradients = responses.gradients(name) if all(is_real(t) for t in tensors) else None
    found = []
    for axis, part in _axes(tensors[0], windowed):
        length = tensors[0].shape[axis]
        indices = [i for i in range(length) if any(_differs(t.select(axis, i)) for t in tensors)]
        if gradients is not None:
            flat = torch.stack([s.movedim(axis, 0).reshape(length, -1).amax(1) for s in gradients]).amax(0)
            indices = [i for i in indices if float(flat[i]) == 0]
        elif len(indices) > 2 * AT_ONCE:
            indices = indices[:: len(indices) // (2 * AT_ONCE) + 1]
        silent = _silent(responses, name, axis, indices, together=gradients is not None)
        if silent and not is_real(tensors[0]) and _is_end(silent, length):
            part = "step"  # the last token that a decoder is given is followed by nothing
        if silent:
            found.append(IgnoredPart(name, part, tuple(silent), length))
    return found


def _axes(tensor: torch.Tensor, windowed: bool) -> list[tuple[int, str]]:
    """Say what the dimensions behind the samples are called; those of length 1 cannot be told apart."""
    names = {2: ("column",), 3: ("channel", "step") if windowed else ("step", "column"), 4: ("channel",)}
    if tensor.dim() == 2 and not is_real(tensor) and (windowed or tensor.shape[1] > 2 * AT_ONCE):
        names[2] = ("step",)
    return [(i, part) for i, part in enumerate(names.get(tensor.dim(), ()), 1) if tensor.shape[i] > 1]


def _silent(responses: InputResponses, name: str, axis: int, indices: list[int], together: bool) -> list[int]:
    """Return those of the indices whose exchange between samples changes nothing."""

    def exchange(chosen: list[int]) -> Callable[[str, torch.Tensor], torch.Tensor]:
        def change(key: str, tensor: torch.Tensor) -> torch.Tensor:
            if key == name:
                index = torch.tensor(chosen, device=tensor.device)
                tensor.index_copy_(axis, index, tensor.index_select(axis, index).roll(1, 0))
            return tensor

        return change

    if not indices:
        return []
    if together and not responses.responds(exchange(indices)):
        return indices
    return [i for i in (indices[:AT_ONCE] if together else indices) if not responses.responds(exchange([i]))]


def _is_end(indices: list[int], length: int) -> bool:
    """Whether these are the first or the last few of all."""
    count = len(indices)
    return indices in (list(range(count)), list(range(length - count, length)))


def _differs(part: torch.Tensor) -> bool:
    return not torch.equal(part, part.roll(1, 0))


class _Names(TorchDispatchMode):
    """Notes the names of all operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _is_windowed(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether anything slides over the inputs, so that what is at their border may be left out."""
    names = _Names()
    with torch.no_grad(), names:
        sandbox.run(batch)
    return any(word in name for name in names.seen for word in ("conv", "pool", "unfold", "im2col"))


@check(explains=("model-ignores-inputs", "worse-than-baseline"))
def inputs_ignored(
    influence: InputInfluence,
    padding: PaddingTrial | None,
    *,
    steps: float = 0.5,  # of the sequence; our choice: a window may exclude its end
    padded: float = 0.2,  # of the predictions' standard deviation, by which padding changes them; our choice
) -> Iterator[Finding]:
    """An input, a column or most of the time steps do not affect the outputs or the loss.

    nbdebug permutes each input, and each column or channel of it, across the samples of several batches, in both modes
    and after a small perturbation of the parameters, and looks for any change at all. Inputs that are the same for all
    samples are not tested. A mask that only repeats where another input is padding may be ignored by a model that needs
    none: it counts where the padding changes the predictions.

    Why it matters: the model cannot learn from an input that it does not use. An argument that is never used, a slice
    that is one too short, or the first output of a recurrent network instead of the last are easy to write and hard to
    spot.

    What to try: follow the input named through forward: is it used, is it overwritten, does a slice or an index drop
    it?
    """
    for part in influence.ignored:
        if part.part == "step" and len(part.indices) <= steps * part.of:
            continue  # a window may exclude the end of a sequence
        if part.mask_of:
            yield _unread_mask(part, padding, padded)
            continue
        yield Finding(
            f"{_named(part)} no effect: permuting {'them' if len(part.indices) > 1 else 'it'} across samples changes "
            f"neither outputs nor loss in {influence.batches} batches.",
            where=part.key,
            severity=_severity(part, influence),
            evidence={
                "indices": list(part.indices),
                "of": part.of,
                "batches": influence.batches,
                "threshold": 0,
                "source": "an input that is used changes the outputs",
            },
            remedies=(Remedy("Use it in forward, or remove it from the batch."),),
        )


def _unread_mask(part: IgnoredPart, padding: PaddingTrial | None, padded: float) -> Finding:
    """Say that a mask is not read, which harms where the padding that it marks changes the predictions."""
    found = padding if padding is not None and padding.name == part.mask_of else None
    moved = (found.influence or 0.0) if found is not None else 0.0
    harms = found is not None and found.changes_predictions(padded, NOISES)
    harm = f", and removing the padding changes the predictions by {moved:.2g} standard deviations" if harms else ""
    return Finding(
        f"The mask `{part.key}` has no effect: it marks the padding of `{part.mask_of}`, and the model does not read "
        f"it{harm}.",
        where=part.key,
        severity="suspect" if harms else "note",
        evidence={
            "influence of the padding on the prediction": moved,
            "share of padding": found.share if found is not None else 0.0,
            "threshold": padded,
            "source": "predictions must not depend on padding",
        },
        remedies=(
            Remedy(
                "Leave the padding out of attention and pooling, and read a recurrent network at its last token.", READ
            ),
        ),
    )


def _named(part: IgnoredPart) -> str:
    if not part.indices:
        return f"The input `{part.key}` has"
    some = ", ".join(map(str, part.indices[:5])) + (", …" if len(part.indices) > 5 else "")
    verb = "have" if len(part.indices) > 1 else "has"
    return f"{len(part.indices)} of {part.of} {part.part}s of `{part.key}` ({some}) {verb}"


def _severity(part: IgnoredPart, influence: InputInfluence) -> Severity:
    """Return a note for an input that may be excluded on purpose."""
    if part.part == "input":
        return "note" if influence.by_name else "bug"
    last_in_order = influence.foretells_itself and len(part.indices) == 1
    return "note" if part.part == "column" and (influence.windowed or last_in_order) else "suspect"
