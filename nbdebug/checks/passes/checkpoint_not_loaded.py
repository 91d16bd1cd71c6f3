"""Weights that do not come from the checkpoint."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn.parameter import is_lazy

from nbdebug.charts import Table
from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Setup, unwrap
from nbdebug.setup.checkpoint import checkpoint_tensors, describe_checkpoint

__all__ = ["CheckpointMatch", "TensorMatch", "checkpoint_match", "checkpoint_not_loaded"]


@dataclass(frozen=True)
class TensorMatch:
    """One tensor of the model against its counterpart in the checkpoint.

    `state` is equal, alike (correlated, as after more training), other, shape, or absent. `correlation` is between the
    two tensors, nan where it means nothing.
    """

    name: str
    key: str
    state: str
    correlation: float
    count: int


@dataclass(frozen=True)
class CheckpointMatch:
    """A model against a checkpoint. `prefix` is what the checkpoint's names have in front, or lack."""

    source: str
    tensors: tuple[TensorMatch, ...]
    prefix: str
    lacks_prefix: bool
    unused: tuple[str, ...]

    def of(self, *states: str) -> list[TensorMatch]:
        """Return the tensors in one of these states."""
        return [tensor for tensor in self.tensors if tensor.state in states]


ALIKE = 0.3  # correlation: training moves weights, but independent ones of this size correlate by less than 0.1
FEWEST = 16  # elements: a correlation of fewer says nothing

Tensors = dict[str, torch.Tensor]


@probe
def checkpoint_match(setup: Setup) -> CheckpointMatch:
    """Compare every tensor of the model with the checkpoint, by name and by value."""
    if setup.checkpoint is None:
        raise NotApplicable("no checkpoint was passed (checkpoint=…)")
    theirs = checkpoint_tensors(setup.checkpoint)
    state = unwrap(setup.model).state_dict()
    mine = {name: t for name, t in state.items() if isinstance(t, torch.Tensor) and not is_lazy(t)}
    prefix, lacks = _prefix(mine, theirs)
    keys = {name: _key(name, prefix, lacks) for name in mine}
    matches = tuple(_match(name, tensor, keys[name], theirs) for name, tensor in mine.items())
    taken = {match.key for match in matches if match.state != "absent"}
    unused = tuple(key for key in theirs if key not in taken)
    return CheckpointMatch(describe_checkpoint(setup.checkpoint), matches, prefix, lacks, unused)


def _prefix(mine: Tensors, theirs: Tensors) -> tuple[str, bool]:
    """Find what the names of the checkpoint have in front against the model's, or lack; empty where they agree."""
    if sum(name in theirs for name in mine) * 2 >= min(len(mine), len(theirs)):
        return "", False
    votes: Counter[tuple[str, bool]] = Counter()
    for name, tensor in mine.items():
        for key, other in theirs.items():
            if other.shape != tensor.shape:
                continue
            if key.endswith(f".{name}"):
                votes[key[: -len(name)], False] += 1
            elif name.endswith(f".{key}"):
                votes[name[: -len(key)], True] += 1
    if not votes:
        return "", False
    best, count = votes.most_common(1)[0]
    return best if count > sum(name in theirs for name in mine) else ("", False)


def _key(name: str, prefix: str, lacks: bool) -> str:
    if not lacks:
        return f"{prefix}{name}"
    return name.removeprefix(prefix)


def _match(name: str, tensor: torch.Tensor, key: str, theirs: Tensors) -> TensorMatch:
    other = theirs.get(key)
    count = int(tensor.numel())
    if other is None:
        return TensorMatch(name, key, "absent", math.nan, count)
    if other.shape != tensor.shape:
        return TensorMatch(name, key, "shape", math.nan, count)
    a, b = (t.detach().cpu().double().flatten() for t in (tensor, other))
    if torch.equal(a, b) or torch.equal(a, b.to(tensor.dtype).double()):
        return TensorMatch(name, key, "equal", 1.0, count)
    correlation = _correlation(a, b)
    alike = math.isnan(correlation) or correlation > ALIKE
    return TensorMatch(name, key, "alike" if alike else "other", correlation, count)


def _correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the correlation of two tensors; nan where one of them is constant or too short."""
    a, b = a - a.mean(), b - b.mean()
    size = float(a.norm() * b.norm())
    if a.numel() < FEWEST or size < 1e-20 or not math.isfinite(size):
        return math.nan
    return float(a @ b) / size


@check(explains=("initial-loss-off",))
def checkpoint_not_loaded(
    match: CheckpointMatch,
    *,
    few: float = 0.05,  # of the parameters: a new head may differ from a checkpoint, a backbone may not; our choice
) -> Iterator[Finding]:
    """Some weights of the model do not come from the checkpoint.

    nbdebug compares every tensor with its counterpart in the checkpoint, also where names differ by a prefix. Equal
    values were loaded, correlated values were loaded and trained further; the rest never came from the checkpoint.

    Why it matters: `load_state_dict(…, strict=False)` silently skips keys that do not match. The model then starts from
    random initialization although it is believed to be pretrained.

    What to try: load with strict=True and read the error; print what strict=False returns; strip prefixes such as
    `module.` from the keys.
    """
    other = [tensor for tensor in match.of("other") if tensor.count > 1]
    loaded = match.of("equal", "alike")
    total = sum(tensor.count for tensor in match.tensors) or 1
    share = sum(tensor.count for tensor in other) / total
    if other and share > few:
        sure: Severity = "bug"
        yield _finding(match, other, f"{share:.0%} of the parameters differ from {match.source}", sure)
    elif other:
        yield _finding(match, other, f"some parameters differ from {match.source}", "suspect")
    elif not any(tensor.state == "equal" or tensor.correlation == tensor.correlation for tensor in loaded):
        absent = match.of("absent", "shape")
        if absent and match.unused:
            says = f"no key in {match.source} matches this model (it contains `{match.unused[0]}`, for example)"
            yield _finding(match, absent, says, "suspect")
    elif absent := [tensor for tensor in match.of("absent", "shape") if tensor.count > 1]:
        verb = "are missing from" if absent[0].state == "absent" else "have a different shape in"
        yield _finding(match, absent, f"{len(absent)} tensors {verb} {match.source}; all others come from it", "note")


def _finding(match: CheckpointMatch, tensors: list[TensorMatch], says: str, severity: Severity) -> Finding:
    named = ", ".join(f"`{tensor.name}`" for tensor in tensors[:3])
    prefix = ""
    if match.prefix:
        prefix = f" The checkpoint keys {'lack' if match.lacks_prefix else 'have'} the prefix `{match.prefix}`."
    return Finding(
        f"{says[0].upper()}{says[1:]}: {named}{f' and {len(tensors) - 3} more' if len(tensors) > 3 else ''}.{prefix}",
        where=tensors[0].name,
        severity=severity,
        evidence={
            "equal": len(match.of("equal")),
            "alike": len(match.of("alike")),
            "other": len(match.of("other")),
            "absent": len(match.of("absent", "shape")),
            "unused": list(match.unused[:10]),
            "threshold": 0.3,
            "source": "correlation; independently initialized weights do not correlate",
        },
        remedies=(
            *((_strip(match),) if match.prefix else ()),
            Remedy(
                "Load with `strict=True` to list the keys that do not match.",
                "model.load_state_dict(state, strict=True)",
            ),
        ),
        exhibit=Table(
            ("tensor", "checkpoint key", "state", "correlation"),
            tuple((t.name, t.key, t.state, round(t.correlation, 3)) for t in tensors[:20]),
            "Model vs. checkpoint",
        ),
    )


def _strip(match: CheckpointMatch) -> Remedy:
    if match.lacks_prefix:
        return Remedy("Add the prefix to the keys.", f"state = {{{match.prefix!r} + k: v for k, v in state.items()}}")
    return Remedy(
        "Remove the prefix from the keys.", f"state = {{k.removeprefix({match.prefix!r}): v for k, v in state.items()}}"
    )
