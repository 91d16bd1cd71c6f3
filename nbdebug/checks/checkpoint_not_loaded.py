"""Weights that do not come from the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import CheckpointMatch, TensorMatch
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["checkpoint_not_loaded"]


@check(explains=("initial-loss-off",))
def checkpoint_not_loaded(
    match: CheckpointMatch,
    *,
    few: float = 0.05,  # of the parameters: a new head may be missing from a checkpoint, a backbone may not differ
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
