"""Where does the way of the gradient end?"""

from __future__ import annotations

from collections.abc import Container

from nbdebug.experiments.trace import Call

__all__ = ["place_of_cut"]


def place_of_cut(calls: list[Call], reached: Container[int], owner: str) -> tuple[str, str, bool]:
    """Follow the calls from the owner on to the module whose output the gradient does not come back to.

    Gives that module, the next one that the gradient does reach, and whether the module itself swallows it.
    """
    own = next((i for i, call in enumerate(calls) if call.path == owner), None)
    if own is None:
        return owner, "", False
    for call in calls[own:]:
        if _swallows(call) and _covers(call.path, owner):
            return call.path, "", True
    last, following = own, ""
    for index in range(own + 1, len(calls)):
        call = calls[index]
        if call.output is None or not call.is_leaf:
            continue
        if _swallows(call):
            return call.path, "", True
        if index in reached and call.began > calls[last].began:
            following = call.path
            break
        if call.output.requires_grad:
            last = index
    return calls[last].path, following, False


def _covers(path: str, owner: str) -> bool:
    return path in ("model", owner) or owner.startswith(f"{path}.")


def _swallows(call: Call) -> bool:
    """Whether something that wants a gradient goes in, and nothing that has one comes out."""
    if call.output is None or call.output.requires_grad or not call.output.is_floating_point():
        return False
    wants = any(p.requires_grad for p in call.module.parameters())
    return wants or any(t.requires_grad for t in call.inputs)
