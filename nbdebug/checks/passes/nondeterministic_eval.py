"""Randomness in eval mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.core.torch_compat import TorchDispatchMode
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import CallStack, tapped
from nbdebug.experiments.kept_state import from_one_state
from nbdebug.experiments.learned_noise import is_noise_learned
from nbdebug.experiments.source_lines import line_now
from nbdebug.experiments.tape import record
from nbdebug.experiments.task import task_of
from nbdebug.experiments.tensor_stats import relative_difference
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import own_loss
from nbdebug.setup.nested import first_tensor, tensors_in
from nbdebug.setup.sample_dataset import seed_all
from nbdebug.setup.user_code import user_code

__all__ = ["EvalNoise", "RandomCall", "eval_noise", "nondeterministic_eval"]


@dataclass(frozen=True)
class RandomCall:
    """One call of a random operation: its name, what kind of chance it is, the module that was running.

    `kind` is dropout, uniform, normal or other. `elementwise` says that as many numbers were drawn as some module's
    output holds, as a mask or noise for activations would need; `source` is the user's line that drew them.
    """

    name: str
    kind: str
    where: str
    elementwise: bool
    source: str = ""


@dataclass(frozen=True)
class EvalNoise:
    """How much the prediction of one batch changes from run to run in eval mode, relative to its spread.

    `changed` is with other random numbers, `repeated` with the same ones. `is_learned` says that the scale of the noise
    is: some parameters affect the prediction only through products with it. `first` is the first module whose output
    changes although its inputs do not. `plain` says that there is one output, a target and an ordinary loss.
    """

    changed: float
    repeated: float
    first: str
    first_module: str
    calls: tuple[RandomCall, ...]
    plain: bool
    task: str
    is_learned: bool = False


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
def eval_noise(sandbox: Sandbox, trial: TrialRun) -> EvalNoise:
    """Run one batch repeatedly in eval mode, with the same and with another random seed."""
    require_run(trial)
    batch = sandbox.batch().head(64)
    with sandbox.mode(training=False), torch.no_grad():
        runs = [_Run(sandbox, batch, seed) for seed in (1, 1, 2)]
    one, same, other = runs
    if one.predicted is None:
        raise NotApplicable("the model returns no tensor")
    first = next((i for i, call in enumerate(one.calls) if _is_born_here(call, other.calls, i)), None)
    output = one.output
    return EvalNoise(
        changed=relative_difference(one.predicted, other.predicted),
        repeated=relative_difference(one.predicted, same.predicted),
        first=one.calls[first][0] if first is not None else "model",
        first_module=one.calls[first][1] if first is not None else type(sandbox.model).__name__,
        calls=tuple(dict.fromkeys(one.random)),
        plain=isinstance(output, torch.Tensor)
        and sandbox.compute_loss is None
        and own_loss(output) is None
        and batch.has_target,
        task=task_of(output, batch).kind,
        is_learned=bool(one.random) and _is_learned(sandbox, batch),
    )


def _is_learned(sandbox: Sandbox, batch: Batch) -> bool:
    with user_code(), sandbox.mode(training=False):
        tape = record(sandbox, batch, step=False, hold_modes=True)
        return is_noise_learned(tape.recording, tape.prediction.number)
    return False


Call = tuple[str, str, list[torch.Tensor], torch.Tensor]  # path, kind of module, inputs, output


class _Run:
    """One pass with all its calls and random operations."""

    def __init__(self, sandbox: Sandbox, batch: Batch, seed: int) -> None:
        self.calls: list[Call] = []
        self.stack = CallStack()
        self.sizes = {int(t.numel()) for t in batch.inputs.values()}
        self._drawn: list[tuple[str, str, int, str]] = []
        seed_all(seed)
        hooks = tapped(sandbox.model, after=self._after, before=self.stack.enter)
        with from_one_state(sandbox.model), hooks, _Listener(self._drew):
            outcome = sandbox.run(batch)
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
    return same and relative_difference(call[3], others[index][3]) > 1e-6


@check(explains=("not-reproducible",))
def nondeterministic_eval(
    noise: EvalNoise,
    *,
    change: float = 1e-3,  # exactly 0 for a correct model; our choice, above rounding
    noises: float = 10.0,  # times the change with the same random numbers; our choice
) -> Iterator[Finding]:
    """In eval mode the same batch gets a different prediction every time.

    nbdebug runs one batch in eval mode with different random seeds and records the random operations. Models that
    sample by design (variational autoencoders, diffusion, noise whose scale is learned, as of Bayesian layers) get a
    note only, and so does dropout called with `training=True`, as in Monte Carlo dropout.

    Why it matters: dropout or noise that is meant for training only makes predictions worse and irreproducible. Typical
    causes are `F.dropout(x)` without `training=self.training`, and layers in plain lists that `eval()` does not reach.

    What to try: pass training=self.training to functional dropout, use nn.Dropout, keep layers in nn.ModuleList, and
    guard noise with `if self.training`.
    """
    if noise.changed <= max(change, noises * noise.repeated):
        return
    kinds = {call.kind for call in noise.calls}
    masks = [call for call in noise.calls if call.elementwise and call.kind in ("uniform", "normal")]
    predicts = noise.plain and noise.task in ("classification", "binary", "multilabel", "regression")
    severity: Severity = "note"
    if "dropout" in kinds:
        severity = "note" if all(_is_intended(call) for call in noise.calls if call.kind == "dropout") else "bug"
    elif predicts and (masks or not noise.calls) and not noise.is_learned:
        severity = "suspect"
    call = next((c for c in noise.calls if c.kind == "dropout"), masks[0] if masks else None)
    named = f" (`{call.name}` is called in `{call.where}`)" if call is not None else ""
    if call is not None and _is_intended(call):
        named += f"; `{call.source}` requests it"
    yield Finding(
        f"In eval mode, two runs of the same batch differ by up to {noise.changed:.2g} standard deviations of the "
        f"outputs{named}.",
        where=call.where if call is not None else noise.first,
        severity=severity,
        evidence={
            "change": noise.changed,
            "change with the same random numbers": noise.repeated,
            "operations": sorted({c.name for c in noise.calls}),
            "threshold": change,
            "source": "exactly 0 for a deterministic model in eval mode",
        },
        remedies=(
            Remedy(
                "Pass the mode to functional dropout.",
                "F.dropout(x, p, training=self.training)",
                Patch("no-chance-in-eval") if "dropout" in kinds else None,
            ),
            Remedy(
                "Add noise in training mode only.",
                "if self.training:\n    x = x + noise",
                Patch("no-chance-in-eval") if "dropout" not in kinds else None,
            ),
            Remedy(
                "Register the layers so that `eval()` reaches them.",
                "self.layers = nn.ModuleList(layers)",
                Patch("hold-hidden-layers"),
            ),
        ),
        exhibit=Bars(("different seed", "same seed"), (noise.changed, noise.repeated)),
    )


def _is_intended(call: RandomCall) -> bool:
    """Return whether the calling line enables dropout explicitly; omitting the argument is the usual mistake."""
    return re.search(r"\b(training|train)\s*=\s*True\b", call.source) is not None
