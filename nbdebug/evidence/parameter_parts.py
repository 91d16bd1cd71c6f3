"""Group parameters by the part of the model that they make up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["parts_of"]


def parts_of(names: Iterable[str], others: Sequence[str]) -> dict[str, list[str]]:
    """Group names by the largest part of the model that holds none of the others, and name it as closely as it goes."""
    groups: dict[str, list[str]] = {}
    for name in names:
        steps = name.split(".")
        prefixes = [".".join(steps[: i + 1]) for i in range(len(steps))]
        whole = next((p for p in prefixes if not any(o == p or o.startswith(f"{p}.") for o in others)), name)
        groups.setdefault(whole, []).append(name)
    return {_innermost(whole, group): group for whole, group in groups.items()}


def _innermost(whole: str, names: Sequence[str]) -> str:
    """Return the innermost module that holds all of these names; a parameter whose layer has others keeps its own."""
    if whole in names:
        return whole
    owners = [name.split(".")[:-1] for name in names]
    shared = [steps[0] for steps in zip(*owners, strict=False) if len(set(steps)) == 1]
    return ".".join(shared) or whole
