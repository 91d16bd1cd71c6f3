"""The copy: a copy of the setup that experiments may run, train and break."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from nbdebug.core import torch_compat
from nbdebug.core.control import Control
from nbdebug.errors import BadInput, NotApplicable
from nbdebug.sandbox.copying import copy_together, refuse_too_large
from nbdebug.sandbox.default_optimizer import LateAdam
from nbdebug.sandbox.forward_pass import Outcome, measured
from nbdebug.sandbox.guard import guarded, interrupts_held
from nbdebug.sandbox.isolation import isolated, refuse_leaking
from nbdebug.sandbox.repair_references import complete_optimizer, cut_loose, say_hooks, uncompile
from nbdebug.sandbox.schedules import cruise
from nbdebug.sandbox.weight_perturbation import verify_copy
from nbdebug.setup import Batch, LossChoice, Setup, unwrap
from nbdebug.setup.distributed.alone import look_wrapped
from nbdebug.setup.loss import infer_loss, main_output, own_loss, total_of
from nbdebug.setup.rebinding import Rebinder, says_reached

__all__ = ["Outcome", "Sandbox", "copy_setup", "guarded", "interrupts_held", "make_sandbox", "refuse_copy"]

QUICK_BATCHES = 2


@dataclass
class Sandbox:
    """A model with its optimizer, scheduler and loss, all copies; free to be run and trained."""

    setup: Setup
    model: nn.Module
    optimizer: Any
    scheduler: Any
    loss_fn: Callable[..., Any] | None
    compute_loss: Callable[..., Any] | None
    train_step: Callable[..., Any] | None
    control: Control
    how: str = "deepcopy"
    notes: list[str] = field(default_factory=list)
    owns_optimizer: bool = False
    loss_parts: Callable[..., Any] | None = None

    @property
    def device(self) -> torch.device:
        """Where the copy lives."""
        return self.setup.device

    @property
    def is_loss_known(self) -> bool:
        """Whether the loss can be computed outside of the user's own step, which may be the only place that has it."""
        return self.train_step is None or self.loss_fn is not None or self.compute_loss is not None

    def batches(self, count: int = 1) -> list[Batch]:
        """Return the first training batches, on the copy's device, as fresh copies; a quick run makes do with two."""
        count = min(count, QUICK_BATCHES) if self.control.quick else count
        whole = self.setup.whole_batches
        return [replace(b.to(self.device), whole=whole) for b in self.setup.batches(count)]

    def batch(self) -> Batch:
        """Return the first training batch."""
        return self.batches(1)[0]

    def forward(self, batch: Batch) -> Any:
        """Call the model as its signature asks."""
        self.control.poll()
        with self._isolated("a forward pass", batch):
            return self.model(*batch.args, **batch.kwargs)

    def run(self, batch: Batch) -> Outcome:
        """Run the model and the loss on one batch, as the user's loop would."""
        return measured(lambda: self._run_by_hand(batch) if self.compute_loss is not None else self._run_plainly(batch))

    def loss_of(self, output: Any, batch: Batch) -> torch.Tensor:
        """Return the loss of this output on this batch."""
        if self.loss_fn is None and (own := own_loss(output)) is not None:
            return own
        value = self.loss_choice(output, batch).function(output, batch.target)
        loss: torch.Tensor = value if isinstance(value, torch.Tensor) else total_of(value)
        return loss

    def loss_choice(self, output: Any, batch: Batch) -> LossChoice:
        """Return the loss in force: the user's, or the one that is assumed from now on."""
        if self.loss_fn is not None:
            name = getattr(self.loss_fn, "__name__", type(self.loss_fn).__name__)
            return LossChoice(self.loss_fn, name, False, "you passed it")
        if self.setup.assumed_loss is None:
            try:
                self.setup.assumed_loss = infer_loss(output, batch.target, batch.has_target)
            except BadInput:
                if self.is_loss_known:
                    raise
                raise NotApplicable("only your training step knows the loss, and no standard one fits") from None
        return self.setup.assumed_loss

    def step(self, batch: Batch) -> float:
        """Take one training step, by the user's own function where there is one, and give the loss before it."""
        self.control.poll()
        if self.train_step is None:
            return self.plain_step(batch)
        loss = total_of(self.user_step(batch))
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise NotApplicable("train_step does not return the loss; end it with `return loss`")
        return float(loss.detach())

    def user_step(self, batch: Batch) -> Any:
        """Call the user's own training step on this batch and give whatever it returns."""
        assert self.train_step is not None
        with self._isolated("train_step", batch):
            return self.train_step(self.model, batch.raw, self.loss_for_user(), self.optimizer)

    def own_step(self, batch: Batch) -> float:
        """Take one step in the user's way and return the loss; where their step returns none, it is measured before."""
        if self.train_step is None:
            return self.plain_step(batch)
        before = batch.clone()
        said = total_of(self.user_step(batch))
        if isinstance(said, torch.Tensor) and said.numel() == 1:
            return float(said.detach())
        with torch.no_grad():
            return float(self.run(before).loss)

    def plain_step(self, batch: Batch) -> float:
        """Take one training step in the way of the books: zero, forward, backward, step."""

        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = self.run(batch).loss
            if not isinstance(loss, torch.Tensor) or not loss.requires_grad or loss.numel() != 1:
                raise NotApplicable("the loss has no gradient; see loss-not-differentiable")
            loss.backward()
            return loss

        if isinstance(self.optimizer, torch.optim.LBFGS):
            return float(self.optimizer.step(closure))
        loss = closure()
        self.optimizer.step()
        return float(loss.detach())

    @contextmanager
    def mode(self, training: bool) -> Iterator[None]:
        """Put the whole copy into one mode and give every module its own mode back after."""
        before = [(module, module.training) for module in self.model.modules()]
        self.model.train(training)
        try:
            yield
        finally:
            for module, mode in before:
                module.training = mode

    def ready_to_train(self) -> None:
        """Switch to training mode where the user left the model in eval; frozen parts of a training model stay so."""
        if not self.model.training:
            self.model.train()

    def fresh(self) -> Sandbox:
        """Make another copy from the user's things as they are now."""
        return make_sandbox(self.setup, self.control)

    def _run_plainly(self, batch: Batch) -> Outcome:
        output = self.forward(batch)
        return Outcome(output, main_output(output), self.loss_of(output, batch))

    def _run_by_hand(self, batch: Batch) -> Outcome:
        seen: list[Any] = []
        handle = None
        if not isinstance(self.model, torch.jit.ScriptModule):  # which takes no hooks; then only the loss is seen
            handle = self.model.register_forward_hook(lambda _, args, output: seen.append(output))
        try:
            assert self.compute_loss is not None
            with self._isolated("compute_loss", batch):
                value = self.compute_loss(self.model, batch.raw, self.loss_for_user())
            loss: Any = value if isinstance(value, torch.Tensor) else total_of(value)
        finally:
            if handle is not None:
                handle.remove()
        if loss is None:
            raise BadInput(
                f"it returned a {type(value).__name__} instead of a loss",
                where="compute_loss",
                expected="a function compute_loss(model, batch, loss_fn) that returns the loss as a tensor",
                do="end it with `return loss`",
            )
        output = seen[-1] if seen else None
        return Outcome(output, main_output(output) if output is not None else None, loss)

    def verify(self, batch: Batch) -> None:
        """Verify once that copies run on their own; call it before a mode that would see the passes of that."""
        verify_copy(self, batch)

    def _isolated(self, what: str, batch: Batch) -> AbstractContextManager[Any]:
        """Watch a run for any use of the live model; before the first one, verify that copies run on their own."""
        self.verify(batch)
        return isolated(self.setup, self.model, what)

    def loss_for_user(self) -> Callable[..., Any] | None:
        """Return the loss that a function of the user's is called with: theirs, or the one assumed."""
        if self.loss_fn is None and self.setup.assumed_loss is not None:
            return self.setup.assumed_loss.function
        return self.loss_fn


def make_sandbox(setup: Setup, control: Control) -> Sandbox:
    """Copy the model, optimizer, scheduler and loss in one go, and say what could not be copied."""
    refuse_copy(setup)
    return copy_setup(setup, control)


def copy_setup(setup: Setup, control: Control) -> Sandbox:
    """Copy what `refuse_copy` has let pass."""
    model = unwrap(setup.model)
    functions = [setup.loss_fn, setup.compute_loss, setup.train_step, setup.loss_parts]
    holders = [part if _has_state(part) else None for part in functions]
    made = copy_together(model, setup.optimizer, setup.scheduler, *holders)
    made.memo[id(setup.model)] = made.parts[0]  # what names the wrapper means the copy as well
    sandbox_model, optimizer, scheduler, *copies = made.parts
    rebinder = Rebinder(made.memo, made.notes)
    complete_optimizer(setup.optimizer, optimizer, rebinder)
    cut_loose(model, sandbox_model, rebinder, *copies)
    uncompile(sandbox_model)
    look_wrapped(setup.model, sandbox_model)
    made.notes.extend(cruise(setup, optimizer, scheduler, control))
    loss_fn, compute_loss, train_step, loss_parts = (
        _own(function, copied, rebinder) for function, copied in zip(functions, copies, strict=True)
    )
    sandbox = Sandbox(
        setup, sandbox_model, optimizer, scheduler, loss_fn, compute_loss, train_step, control, made.how, made.notes
    )
    sandbox.loss_parts = loss_parts
    say_hooks(model, sandbox.notes)
    _poll_in_every_module(sandbox_model, control)
    if sandbox.optimizer is None:
        sandbox.optimizer, sandbox.owns_optimizer = LateAdam(sandbox_model), True
    for patch in setup.patches:
        patch(sandbox)
    return sandbox


def refuse_copy(setup: Setup) -> None:
    """Raise where no copy may be made, because it would leak or not fit, or is forbidden."""
    refuse_leaking(setup)
    if setup.no_copy:
        raise NotApplicable(setup.no_copy)
    refuse_too_large(unwrap(setup.model), setup.optimizer)


def _has_state(part: Any) -> bool:
    """Whether a loss or step is an object to copy, and not code that all share."""
    return part is not None and not isinstance(part, (type(make_sandbox), type(len)))


def _own(function: Any, copied: Any, rebinder: Rebinder) -> Any:
    if function is None:
        return None
    sandbox, names = rebinder.rebound(copied if copied is not None else function)
    if names:
        label = getattr(function, "__name__", type(function).__name__)
        rebinder.notes.append(says_reached(label, names))
    return sandbox


def _poll_in_every_module(model: nn.Module, control: Control) -> None:
    poll, number = _Poll(control), RemovableHandle(OrderedDict()).id  # a handle for each module costs more than a call
    for module in model.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            torch_compat.forward_pre_hooks(module)[number] = poll


class _Poll:
    """A hook that lets a cancel or an interrupt stop the pass within one module call."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def __call__(self, module: nn.Module, args: Any) -> None:
        self.control.poll()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Poll:
        return copy.copy(self)
