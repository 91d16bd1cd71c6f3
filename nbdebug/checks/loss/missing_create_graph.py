"""A derivative in the loss that has no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.experiments.tape.taint import Taint
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_run

__all__ = ["DerivativeTerms", "derivative_terms", "missing_create_graph"]


@dataclass(frozen=True)
class DerivativeTerms:
    """The summands of the loss that are computed from derivatives: how many there are, and the values without graph."""

    calls: int  # of torch.autograd.grad
    constant: tuple[float, ...]
    loss: float


_SUMS = ("add", "add_", "radd", "sub", "sub_", "rsub", "stack", "cat")
_PASSED_ON = ("mul", "mul_", "rmul", "div", "div_", "mean", "sum", "neg", "to", "squeeze", "reshape", "view", "float")


@probe(ops=("grad",))
def derivative_terms(sandbox: Sandbox, trial: TrialRun | None) -> DerivativeTerms:
    """Look for terms of the loss that come from `torch.autograd.grad` and have no gradient themselves."""
    if trial is None and sandbox.train_step is None:
        raise NotApplicable("the loss does not run")
    sandbox.ready_to_train()
    with required_run():
        recording = run_recorded(sandbox, sandbox.batch(), step=sandbox.train_step is not None)
    calls = [op for op in recording.ops if op.name == "grad"]
    if not calls or not recording.roots:
        raise NotApplicable("the loss takes no derivative by torch.autograd.grad")
    trained = _trained(recording)
    found = [number for root in recording.roots for number in _constant_terms(recording, root, trained)]
    return DerivativeTerms(
        len(calls),
        tuple(_value(recording, number) for number in found),
        sum(_value(recording, root) for root in recording.roots),
    )


def _trained(recording: Recording) -> set[int]:
    """Return the values through which a gradient flows to parameters, and not only to inputs."""
    values = recording.values
    found = {v.number for v in values if v.producer < 0 and v.requires_grad and v.taint & Taint.PARAMETER}
    for op in recording.ops:
        if not found.isdisjoint(op.inputs):
            found.update(number for number in op.made if values[number].requires_grad)
    return found


def _constant_terms(recording: Recording, root: int, trained: set[int]) -> Iterator[int]:
    """Walk back over sums and weights to summands that no parameter can change and that are made of a derivative."""
    todo, seen = [root], {root}
    while todo:
        op = recording.producer(todo.pop())
        if op is None or op.name not in (*_SUMS, *_PASSED_ON):
            continue
        for number in op.inputs:
            if number in seen:
                continue
            seen.add(number)
            if number in trained:
                todo.append(number)
            elif op.name in _SUMS and _is_derivative(recording, number):
                yield number


def _is_derivative(recording: Recording, number: int) -> bool:
    todo, seen = [number], {number}
    while todo:
        op: Op | None = recording.producer(todo.pop())
        if op is None:
            continue
        if op.name == "grad":
            return True
        new = set(op.inputs) - seen
        seen |= new
        todo += new
    return False


def _value(recording: Recording, number: int) -> float:
    tensor = recording.values[number].tensor
    return float(tensor.detach().float().mean()) if tensor is not None else 0.0


@check(explains=("loss-not-differentiable",))
def missing_create_graph(terms: DerivativeTerms) -> Iterator[Finding]:
    """A term of the loss is a derivative without a gradient of its own: create_graph=True is missing.

    nbdebug records one run of your loss or training step and looks for summands that come from `torch.autograd.grad`
    and do not require a gradient. Derivatives as weights, as directions of an attack or as inputs are fine.

    Why it matters: the term is a constant to autograd. A gradient penalty, a PDE residual or a force is added to the
    loss, printed, and never trained.

    What to try: `torch.autograd.grad(outputs, inputs, create_graph=True)`.
    """
    if terms.constant:
        yield Finding(
            f"{len(terms.constant)} term{'s' * (len(terms.constant) > 1)} of the loss "
            f"({', '.join(f'{value:.3g}' for value in terms.constant[:3])} of {terms.loss:.3g}) "
            f"{'come' if len(terms.constant) > 1 else 'comes'} from `autograd.grad` and cannot be trained: "
            "`create_graph=True` is missing.",
            where="loss",
            evidence={
                "terms": list(terms.constant),
                "loss": terms.loss,
                "calls of autograd.grad": terms.calls,
                "threshold": "a term of the loss has a gradient",
                "source": "torch.autograd.grad: create_graph",
            },
            remedies=(
                Remedy(
                    "Keep the graph of the derivative.",
                    "(gradient,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)",
                ),
            ),
        )
