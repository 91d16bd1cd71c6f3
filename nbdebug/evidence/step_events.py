"""Follow every network and every optimizer that the training step reaches, through a few calls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.initial_weights import looks_fresh
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.averaged_copies import Averaging, CopyLog
from nbdebug.experiments.gradient_state import held_by, is_coarse
from nbdebug.experiments.network_modes import NetworkModes
from nbdebug.experiments.reached_parts import innermost, reached_parts
from nbdebug.experiments.step_log import StepLog, Steps
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import total_of
from nbdebug.setup.several import SeveralOptimizers
from nbdebug.setup.user_code import names_used, user_code

__all__ = ["ClipFacts", "NetworkFacts", "OptimizerSteps", "ParameterFlow", "StepEvents", "step_events"]


@dataclass(frozen=True)
class ParameterFlow:
    """One parameter of a network that the step reaches: in how many calls a gradient came, and what became of it."""

    name: str
    shape: tuple[int, ...]
    calls_with_gradient: int
    held: bool  # by any optimizer that is reached or took a step
    moved: bool  # changed in any call, by whatever
    requires_grad: bool = True
    came_as_zero: bool = False  # a gradient came, and was zero each time
    left_frozen: bool = False  # got a gradient in a first call, and requires none since


@dataclass(frozen=True)
class NetworkFacts:
    """One network: the model, or another that the step (or the loss) reaches by name.

    `fresh` says that its weights look like a usual initialization; `in_eval` that it ran in eval mode.
    """

    name: str
    parameters: tuple[ParameterFlow, ...]
    fresh: bool
    in_eval: bool
    ran: bool

    @property
    def missing(self) -> tuple[ParameterFlow, ...]:
        """The parameters that got a gradient, are in no optimizer, and never changed."""
        return tuple(p for p in self.parameters if p.calls_with_gradient and not p.held and not p.moved)


@dataclass(frozen=True)
class OptimizerSteps:
    """What one optimizer did in these calls.

    `graded` counts its parameters that ever got a gradient by backward, `with_gradient` its steps that found one.
    `strays` counts its parameters that belong to no network that is reached. `foreign` counts steps that used the
    gradients of a loss which another optimizer's step (`foreign_of`) had used before; `passes` are the backward passes
    of one place in the code that each step used; `lost` is the share of low-precision values a step left unchanged.
    """

    name: str
    steps: int
    with_gradient: int
    parameters: int
    graded: int
    strays: int
    stale: int = 0
    foreign: int = 0
    foreign_of: str = ""
    passes: tuple[int, ...] = ()
    divided: bool = False  # whether any of these losses, or its gradients before the step, was divided or weighted
    lost: tuple[float, ...] = ()
    probed: int = 0  # steps with gradients of a pass for an input, beside those of the loss that is returned
    rate: float = 0.0
    precision: str = ""
    is_main: bool = False
    networks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClipFacts:
    """All calls that clip gradients: how many a later step used, found no gradient, or came before unscaling."""

    calls: int
    used: int
    without_gradient: int
    scaled: int
    limit: float


@dataclass(frozen=True)
class StepEvents:
    """What a few calls of the training step, or of the loss and its backward pass, showed."""

    is_step: bool
    calls: int
    networks: tuple[NetworkFacts, ...]
    optimizers: tuple[OptimizerSteps, ...]
    clips: ClipFacts
    averages: tuple[Averaging, ...] = ()
    loose: tuple[ParameterFlow, ...] = ()  # single tensors that the program holds and that require a gradient
    schedulers: tuple[str, ...] = ()  # that each call steps
    loads_of_itself: tuple[str, ...] = ()  # networks into which the step loads their own weights


CALLS = 6
CALLS_AT_MOST = 34  # an optimizer may step every sixteen calls only, and its second step confirms the first
PASSES = 2  # of a loss without a training step


@probe
def step_events(sandbox: Sandbox, trial: TrialRun | None, control: Control) -> StepEvents:
    """Call your training step and follow each gradient from its backward pass to an optimizer step."""
    if trial is not None and not trial.ok and sandbox.train_step is None:
        raise NotApplicable("the forward or backward pass fails; see forward-fails")
    sandbox.ready_to_train()
    reached = reached_parts(sandbox)
    if not _takes_steps(sandbox) and len(reached.networks) == 1 and not reached.tensors:
        raise NotApplicable("the loss reaches no other network or parameter than the model's")
    log, copies, modes = StepLog(reached), CopyLog(reached.networks), NetworkModes(reached.networks)
    log.watched = copies.watched
    fresh = {name: _is_fresh(module) for name, module in reached.networks.items() if name != "model"}
    start = {key: f.tensor.detach().clone() for key, f in log.parameters.items()}
    epochs = {name: scheduler.last_epoch for name, scheduler in reached.schedulers.items()}
    stops = _run(sandbox, log, copies, modes, start, control)
    if stops:
        raise NotApplicable(f"your training step fails: {stops}")
    held = log.held()
    return StepEvents(
        is_step=sandbox.train_step is not None,
        calls=log.call + 1,
        networks=tuple(
            NetworkFacts(name, _flows(log, name, held), fresh.get(name, True), *modes.of(name))
            for name in reached.networks
        ),
        optimizers=tuple(_optimizer(log, sandbox, part) for part in _optimizers(log)),
        clips=_clips(log),
        averages=copies.judged(),
        loose=tuple(flow for flow in _flows(log, "", held) if flow.name in reached.tensors),
        schedulers=tuple(
            name for name, s in reached.schedulers.items() if s.last_epoch - epochs[name] >= max(log.call, 1)
        ),
        loads_of_itself=tuple(dict.fromkeys(log.loads_of_itself)),
    )


def _run(
    sandbox: Sandbox,
    log: StepLog,
    copies: CopyLog,
    modes: NetworkModes,
    start: dict[int, torch.Tensor],
    control: Control,
) -> str:
    """Call the step on the first batches in turn; return what it raised."""
    batches, failure = sandbox.batches(CALLS), ""
    code = getattr(sandbox.train_step, "__code__", None)
    loads = code is not None and "load_state_dict" in names_used(code)
    most, fewest = (PASSES, PASSES) if not _takes_steps(sandbox) else (CALLS, CALLS)
    most = CALLS_AT_MOST if sandbox.train_step is not None else most
    with log.following(), modes.watched(), copies.watching():
        for call in control.as_many(range(most), fewest=fewest):
            if failure or (call >= fewest and not _waits(log, loads) and not copies.waits):
                break
            control.progress(call / most, "following the gradients of your training step")
            log.begin_call()
            copies.begin_call()
            with user_code() as tried:
                log.end_call(_call(sandbox, batches[call % len(batches)].clone()))
            failure = tried.failure
            copies.end_call(log.after_step)
    for key, followed in log.parameters.items():
        followed.moved = not torch.equal(start[key], followed.tensor.detach())
    return failure.splitlines()[0] if failure else ""


def _call(sandbox: Sandbox, batch: Batch) -> object:
    if sandbox.train_step is not None:
        return total_of(sandbox.user_step(batch))
    if _takes_steps(sandbox):
        sandbox.plain_step(batch)
    else:
        _backward(sandbox.run(batch).loss)
    return None


def _takes_steps(sandbox: Sandbox) -> bool:
    """Whether steps are to be seen: the user's own, or plain ones of weights in low precision."""
    return sandbox.train_step is not None or any(is_coarse(p) for p in held_by(sandbox.optimizer))


def _backward(loss: object) -> None:
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad or loss.numel() != 1:
        raise NotApplicable("the loss has no gradient")
    loss.backward()


def _waits(log: StepLog, waits_for_load: bool) -> bool:
    """Whether an optimizer that the step reaches, and whose parameters get gradients, has taken no step yet.

    One that accumulates over several passes is waited for until its second step, and a step that loads weights until it
    has done so.
    """
    if not log.steps and not log.reached.optimizers:
        return False
    if waits_for_load and not log.has_loaded:
        return True
    if any(steps.count == 1 and max(steps.passes, default=0) > 1 for steps in log.steps.values()):
        return True
    for optimizer in log.reached.optimizers.values():
        steps = log.steps.get(id(optimizer))
        if steps is None and any(log.parameters[id(p)].came for p in held_by(optimizer) if id(p) in log.parameters):
            return True
    return False


def _is_fresh(module: nn.Module) -> bool:
    """Whether most weights of a network could come from a usual initialization."""
    weights = [p for p in module.parameters() if p.dim() >= 2 and p.is_floating_point() and p.numel() >= 200]
    found = [looks_fresh(p) for p in weights]
    return sum(found) >= 0.5 * len(found)


def _flows(log: StepLog, network: str, held: set[int]) -> tuple[ParameterFlow, ...]:
    return tuple(
        ParameterFlow(
            f.name,
            tuple(f.tensor.shape),
            f.came,
            key in held,
            f.moved,
            f.tensor.requires_grad,
            came_as_zero=f.grads > 0 and not f.came,
            left_frozen=f.asked and not f.tensor.requires_grad and f.came > 0 and f.came_in < min(2, log.call),
        )
        for key, f in log.parameters.items()
        if f.network == network
    )


def _optimizers(log: StepLog) -> list[Steps]:
    """Return the steps of all optimizers: those that are reached, and others that took a step."""
    known = {id(optimizer): Steps(optimizer) for optimizer in log.reached.optimizers.values()}
    return list({**known, **log.steps}.values())


def _optimizer(log: StepLog, sandbox: Sandbox, steps: Steps) -> OptimizerSteps:
    held = [log.parameters[id(p)] for p in held_by(steps.optimizer) if id(p) in log.parameters]
    name = log.reached.name_of(steps.optimizer)
    is_given = steps.optimizer is innermost(sandbox.optimizer)
    coarse = [f.tensor.dtype for f in held if f.tensor.element_size() < 4]
    return OptimizerSteps(
        name=name,
        steps=steps.count,
        with_gradient=steps.with_gradient,
        parameters=len(held_by(steps.optimizer)),
        graded=sum(f.came > 0 for f in held),
        strays=sum(not f.network and f.name not in log.reached.tensors for f in held),
        stale=steps.stale,
        foreign=steps.foreign,
        foreign_of=log.reached.name_of(steps.foreign_of) if steps.foreign_of is not None else "",
        passes=tuple(steps.passes),
        divided=steps.divided,
        lost=tuple(steps.lost),
        probed=steps.probed,
        rate=max((float(group.get("lr") or 0.0) for group in steps.optimizer.param_groups), default=0.0),
        precision=str(coarse[0]).removeprefix("torch.") if coarse else "",
        is_main=is_given and not isinstance(sandbox.optimizer, SeveralOptimizers),
        networks=tuple(dict.fromkeys(f.network for f in held if f.network)),
    )


def _clips(log: StepLog) -> ClipFacts:
    finite = [clip for clip in log.clips if clip.limit != float("inf")]
    return ClipFacts(
        calls=len(finite),
        used=sum(clip.is_used for clip in finite),
        without_gradient=sum(not clip.found for clip in finite),
        scaled=sum(clip.scaled for clip in finite),
        limit=finite[-1].limit if finite else 0.0,
    )
