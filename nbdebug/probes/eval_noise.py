"""Run the model in eval mode several times and see whether it says the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.errors import NotApplicable
from nbdebug.evidence import EvalNoise, RandomCall, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_all
from nbdebug.subject.loss import own_loss
from nbdebug.twin import Twin
from nbdebug.twin.kept_state import from_one_state
from nbdebug.twin.sources import line_now
from nbdebug.twin.taps import CallStack, first_tensor, tapped, tensors_in
from nbdebug.twin.task import task_of

__all__ = ["difference", "eval_noise"]

_KINDS = {
    "native_dropout": "dropout",
    "bernoulli_": "dropout",  # nn.functional.dropout, alpha_dropout and their kin; in place with a fixed probability
    "_fused_dropout": "dropout",
    "bernoulli": "uniform",
    "rand": "uniform",
    "uniform": "uniform",
    "normal": "normal",
}


@probe(quick=False)
def eval_noise(twin: Twin, trial: TrialRun) -> EvalNoise:
    """Run one batch repeatedly in eval mode, with the same and with another random seed."""
    require_run(trial)
    batch = twin.batch().head(64)
    with twin.mode(training=False), torch.no_grad():
        runs = [_Run(twin, batch, seed) for seed in (1, 1, 2)]
    one, same, other = runs
    if one.predicted is None:
        raise NotApplicable("the model returns no tensor")
    first = next((i for i, call in enumerate(one.calls) if _is_born_here(call, other.calls, i)), None)
    output = one.output
    return EvalNoise(
        changed=difference(one.predicted, other.predicted),
        repeated=difference(one.predicted, same.predicted),
        first=one.calls[first][0] if first is not None else "model",
        first_module=one.calls[first][1] if first is not None else type(twin.model).__name__,
        calls=tuple(dict.fromkeys(one.random)),
        plain=isinstance(output, torch.Tensor)
        and twin.compute_loss is None
        and own_loss(output) is None
        and batch.has_target,
        task=task_of(output, batch).kind,
    )


Call = tuple[str, str, list[torch.Tensor], torch.Tensor]  # path, kind of module, inputs, output


class _Run:
    """One pass with all its calls and random operations."""

    def __init__(self, twin: Twin, batch: Batch, seed: int) -> None:
        self.calls: list[Call] = []
        self.stack = CallStack()
        self.sizes = {int(t.numel()) for t in batch.inputs.values()}
        self._drawn: list[tuple[str, str, int, str]] = []
        seed_all(seed)
        hooks = tapped(twin.model, after=self._after, before=self.stack.enter)
        with from_one_state(twin.model), hooks, _Listener(self._drew):
            outcome = twin.run(batch)
        self.output, self.predicted = outcome.output, outcome.predicted

    @property
    def random(self) -> list[RandomCall]:
        """What was drawn, and where."""
        return [RandomCall(name, _kind(name), at, count in self.sizes, line) for name, at, count, line in self._drawn]

    def _after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self.stack.leave(path, module, inputs, output)
        tensor = first_tensor(output)
        if tensor is None or tensor.is_nested or tensor.layout is not torch.strided:
            return
        self.sizes.add(int(tensor.numel()))
        given = [t.detach().clone() for t in tensors_in(tuple(inputs)) if t.layout is torch.strided and not t.is_nested]
        self.calls.append((path, type(module).__name__, given, tensor.detach().clone()))

    def _drew(self, name: str, count: int) -> None:
        self._drawn.append((name, self.stack.innermost[0] if self.stack.innermost else "model", count, line_now()))


class _Listener(TorchDispatchMode):
    """Hears every random operation."""

    def __init__(self, tell: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tell = tell

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            drawn = first_tensor(result if isinstance(result, (tuple, list)) else (result,))
            name = func.overloadpacket.__name__
            if not name.startswith("_scaled_dot_product"):  # carries the tag without drawing anything
                self.tell(name, int(drawn.numel()) if drawn is not None else 0)
        return result


def _kind(name: str) -> str:
    return next((kind for start, kind in _KINDS.items() if name.startswith(start) and "randn" not in name), "") or (
        "normal" if "randn" in name else "other"
    )


def _is_born_here(call: Call, others: list[Call], index: int) -> bool:
    """Whether the same call with the same inputs gave something else in the other run."""
    if index >= len(others) or others[index][0] != call[0] or len(others[index][2]) != len(call[2]):
        return False
    same = all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(call[2], others[index][2], strict=True))
    return same and difference(call[3], others[index][3]) > 1e-6


def difference(one: torch.Tensor | None, other: torch.Tensor | None) -> float:
    """Give the largest change relative to the spread of the values; infinite where the shapes differ."""
    if one is None or other is None or one.shape != other.shape:
        return float("inf")
    if torch.equal(one, other):
        return 0.0  # the usual case, told without a copy in double precision
    wide = torch.complex128 if one.is_complex() else torch.float64
    a, b = one.detach().to(wide), other.detach().to(wide)
    finite = torch.isfinite(a) & torch.isfinite(b)
    if not bool(finite.any()):
        return 0.0
    size = max(float(a[finite].abs().mean()), 1e-12)
    spread = float(a[finite].std(correction=0)) if int(finite.sum()) > 1 else 0.0
    return float((a - b)[finite].abs().max()) / max(spread, 1e-3 * size, 1e-12)
