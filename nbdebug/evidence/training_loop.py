"""Call the user's own training step on a copy and note what it does."""

from __future__ import annotations

import gc
import math
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.core.torch_compat import OPTIMIZER_HOOKS
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.gradient_state import held_by
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.recorder.nested_steps import is_inner_step
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.user_code import user_code

__all__ = ["Clipping", "Loop", "LoopFacts", "LoopStep", "loop_facts", "own_loop"]


@dataclass(frozen=True)
class LoopStep:
    """What one call of the user's training step did.

    `leftover` is the norm of gradients from before an optimizer step that were still there when the next backward
    pass began; `raw_norm` and `used_norm` are the gradient's norm after backward and when the optimizer used it.
    `change` is how far the weights are from where they were before the call, and `stepped` how far the optimizer moved
    them within it.
    """

    loss: float
    forwards: int
    backwards: int
    steps: int
    leftover: float
    raw_norm: float
    used_norm: float
    change: float
    step_without_gradient: bool
    training_mode: bool
    keeps_graph: bool
    stepped: float = 0.0


@dataclass(frozen=True)
class Loop:
    """The user's own training step, called a few times on a copy; `error` is what ended it before its time."""

    calls: tuple[LoopStep, ...]
    other_change: float  # how much the parameters changed that the optimizer does not hold
    graphs_alive: int  # graphs of the calls that something still holds after the last one
    error: str = ""
    stepped_first: bool = False  # in the call that failed, the optimizer stepped before any gradient came

    def require(self) -> None:
        """Refuse to judge a step that does not run."""
        if self.error:
            raise NotApplicable("your training step fails; see step-never-taken")


@dataclass(frozen=True)
class LoopFacts:
    """What the calls of a training step, or the steps of a loop that was watched, did altogether.

    `place` is what to call the loop, and `unit` what was counted. Of `judged` steps that could be looked at, `dirty`
    began with gradients of an earlier step, of norm `leftover` where it is known. `idle` steps found no gradient.
    `late` says that each step uses the gradients of the batch before. `kept` is the largest share of what the optimizer
    changed in a step that was still there after the call.
    """

    place: str
    unit: str
    count: int
    backwards: int
    steps: int
    idle: int
    moved: int
    dirty: int
    judged: int
    leftover: float
    graphs_alive: int
    late: bool = False
    used_norms: tuple[float, ...] = ()
    error: str = ""
    stepped_first: bool = False
    kept: float = 1.0
    graphs_over: int | None = None  # in how many steps so many graphs were kept, where it is not all

    def require(self) -> None:
        """Refuse to judge a step that does not run."""
        if self.error:
            raise NotApplicable("your training step fails; see step-never-taken")


@dataclass(frozen=True)
class Clipping:
    """Norms of the gradient after the backward pass and as the optimizer took it, in pairs; none of them is zero."""

    place: str
    pairs: tuple[tuple[float, float], ...]


CALLS = 6
SCALED = 100.0  # a gradient that shrinks so much before the step is compared with that of the plain loss
CALLS_AT_MOST = 40  # gradient accumulation may take a step only every so many calls


@probe
def own_loop(sandbox: Sandbox, trial: TrialRun | None, control: Control) -> Loop:
    """Run your training step repeatedly and track gradients, weights and memory."""
    if trial is not None:  # there is none of a training step whose model cannot be called without it
        require_run(trial)
    if sandbox.train_step is None:
        raise NotApplicable("no train_step was passed, so the loop cannot be observed")
    sandbox.ready_to_train()
    notes, batches = _Notes(sandbox), sandbox.batches(CALLS)
    calls: list[LoopStep] = []
    outside = [p.detach().clone() for p in notes.others]
    try:
        with user_code() as tried:
            while len(calls) < CALLS or (notes.steps_taken < 3 and len(calls) < CALLS_AT_MOST):
                control.progress(len(calls) / CALLS_AT_MOST, "running your training step")
                calls.append(notes.call(batches[len(calls) % len(batches)]))
    finally:
        notes.detach()
    error = tried.failure and tried.failure.splitlines()[0]
    if error and trial is None:
        raise NotApplicable(f"your training step fails on a copy ({error})")
    changed = [float((p.detach() - old).norm()) for p, old in zip(notes.others, outside, strict=True)]
    alive = notes.graphs_alive() if not error else 0
    return Loop(tuple(calls), max(changed, default=0.0), alive, error, bool(notes.steps) and not notes.came)


@probe
def clipping(loop: Loop) -> Clipping:
    """Compare the gradient norm after backward with the one at the optimizer step."""
    loop.require()
    calls = [call for call in loop.calls if call.steps and call.raw_norm > 0 and call.used_norm > 0]
    return Clipping("train_step", tuple((call.raw_norm, call.used_norm) for call in calls))


@probe
def loop_facts(loop: Loop) -> LoopFacts:
    """Count the backward passes, steps and gradients of your training step."""
    calls = loop.calls
    dirty = [call for call in calls if call.leftover > 0]
    alike = all(call.steps == 1 == call.backwards for call in calls)
    return LoopFacts(
        place="train_step",
        unit="calls of your training step",
        count=len(calls),
        backwards=sum(call.backwards for call in calls),
        steps=sum(call.steps for call in calls),
        idle=sum(call.steps for call in calls if call.step_without_gradient),
        moved=sum(call.change > 0 for call in calls),
        dirty=len(dirty),
        judged=len(calls),
        leftover=dirty[-1].leftover if dirty else 0.0,
        graphs_alive=loop.graphs_alive,
        late=bool(calls) and calls[0].step_without_gradient and calls[0].backwards > 0 and alike,
        used_norms=tuple(call.used_norm for call in calls),
        error=loop.error,
        stepped_first=loop.stepped_first,
        kept=max((call.change / call.stepped for call in calls if call.stepped > 0), default=1.0) if alike else 1.0,
    )


class _Token:
    """Something to hang on a node of the graph; it lives exactly as long as the node does."""


class _Notes:
    """Hooks on the copy that write down what one call of the step does."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox, self.steps_taken = sandbox, 0
        optimizer = _optimizer_of(sandbox)
        self.held = [p for group in optimizer.param_groups for p in group["params"]]
        known = {id(p) for p in self.held}
        self.others = [p for p in sandbox.model.parameters() if id(p) not in known]
        self.before = [p.detach().clone() for p in self.held]
        self._tokens: list[weakref.ref[_Token]] = []
        self._used: set[int] = set()  # parameters whose gradients an optimizer step has used
        self._old: dict[int, float] = {}  # of these, the norms of those that were still there at the next backward pass
        self._clear()
        while not hasattr(optimizer, OPTIMIZER_HOOKS[0]) and hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer  # a wrapper, as accelerate makes one, has no hooks of its own
        self._handles: list[Any] = [
            sandbox.model.register_forward_hook(self._after_forward),
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
            *(p.register_hook(partial(self._arrives, p)) for p in self.held if p.requires_grad),
            *(p.register_post_accumulate_grad_hook(self._accumulated) for p in self.held if p.requires_grad),
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Notes:
        """A step may copy its model at every call; the copy reports here as well."""
        return self

    @property
    def came(self) -> bool:
        """Whether a gradient has come to a parameter in this call."""
        return bool(self._raw)

    def detach(self) -> None:
        """Take the hooks off again."""
        for handle in self._handles:
            handle.remove()

    def call(self, batch: Batch) -> LoopStep:
        """Call the step once and give what was noted."""
        self._clear()
        loss = self.sandbox.user_step(batch.clone())
        now = [p.detach().clone() for p in self.held]
        change = _distance(now, self.before)
        self.before = now
        return LoopStep(
            loss=_number(loss),
            forwards=self.forwards,
            backwards=self.backwards,
            steps=self.steps,
            leftover=self.leftover,
            raw_norm=self._raw_norm(batch),
            used_norm=self.used_norm,
            change=change,
            stepped=self.stepped,
            step_without_gradient=self.idle_step,
            training_mode=self.training,
            keeps_graph=isinstance(loss, torch.Tensor) and loss.requires_grad,
        )

    def _raw_norm(self, batch: Batch) -> float:
        """Return the gradient's norm after backward; a gradient scaler's factor is not counted in."""
        raw = math.sqrt(sum(norm**2 for norm in self._raw.values()))
        if self.used_norm == 0.0 or raw < SCALED * self.used_norm:
            return raw
        trained = [p for p in self.held if p.requires_grad]
        try:
            gradients = torch.autograd.grad(self.sandbox.run(batch.clone()).loss, trained, allow_unused=True)
        except RuntimeError:
            return raw
        return min(raw, math.sqrt(sum(_norm(gradient) ** 2 for gradient in gradients)))

    def graphs_alive(self) -> int:
        """Count the graphs of earlier calls that something still holds."""
        gc.collect()
        return sum(token() is not None for token in self._tokens)

    def _clear(self) -> None:
        self.forwards = self.backwards = self.steps = 0
        self.leftover = self.used_norm = self.stepped = 0.0
        self.idle_step, self.training = False, True
        self._raw: dict[int, float] = {}

    def _after_forward(self, module: Any, args: Any, output: Any) -> None:
        self.forwards += 1
        self.training = self.training and bool(module.training)
        tensor = next((t for t in tensors_in(output) if t.requires_grad), None)
        if tensor is not None:
            tensor.register_hook(self._backward_begins)
            if tensor.grad_fn is not None:
                token = _Token()
                node: Any = tensor.grad_fn  # its `metadata` is a dict, whatever the stubs say
                node.metadata["nbdebug"] = token
                self._tokens.append(weakref.ref(token))

    def _backward_begins(self, gradient: torch.Tensor) -> None:
        self.backwards += 1

    def _arrives(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Note gradients that an optimizer step has used and that are still there; they may yet be cleared."""
        key, norm = id(parameter), _norm(parameter.grad)
        if not norm:
            self._used.discard(key)
            self._old.pop(key, None)
        elif key in self._used:
            self._old[key] = norm

    def _accumulated(self, parameter: torch.Tensor) -> None:
        self._raw[id(parameter)] = _norm(parameter.grad)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_inner_step(optimizer):
            return
        self.steps += 1
        self.steps_taken += 1
        self.used_norm = self._gradient_norm()
        self.idle_step = self.idle_step or self.used_norm == 0.0
        left = [norm for key, norm in self._old.items() if key in self._used]
        self.leftover = max(self.leftover, math.sqrt(sum(norm**2 for norm in left)))
        self._old.clear()
        self._used.update(id(p) for p in self.held if p.grad is not None)
        self._at_step = [p.detach().clone() for p in self.held]

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_inner_step(optimizer):
            return
        self.stepped += _distance([p.detach() for p in self.held], self._at_step)

    def _gradient_norm(self) -> float:
        return math.sqrt(sum(_norm(p.grad) ** 2 for p in self.held))


def _optimizer_of(sandbox: Sandbox) -> Any:
    """Return the optimizer that was passed; else the one of the step's own that holds the most of the model."""
    if not sandbox.owns_optimizer:
        return sandbox.optimizer
    own = {id(p) for p in sandbox.model.parameters()}
    found = reached_parts(sandbox).optimizers.values()
    return max(found, key=lambda one: sum(id(p) in own for p in held_by(one)), default=sandbox.optimizer)


def _distance(now: list[torch.Tensor], before: list[torch.Tensor]) -> float:
    return math.sqrt(sum(float((a - b).abs().square().sum()) for a, b in zip(now, before, strict=True)))


def _norm(gradient: torch.Tensor | None) -> float:
    if gradient is None:
        return 0.0
    return float((gradient.coalesce().values() if gradient.is_sparse else gradient).detach().norm())


def _number(value: Any) -> float:
    """Return the loss as a number; a step may also return nothing, or more than one thing."""
    if isinstance(value, torch.Tensor):
        return float(value.detach()) if value.numel() == 1 else math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
