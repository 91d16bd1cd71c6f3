"""Which entries of an input a random draw hides before they are predicted, and which of them the loss counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.sample_exchange import samples_of
from nbdebug.experiments.tape import Taint, Tape, TapeUnreadable, record
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import map_leaves, name_of

__all__ = ["HiddenInputs", "hidden_inputs"]

SAMPLES = 16


@dataclass(frozen=True)
class HiddenInputs:
    """An input that is reconstructed after some of its entries, drawn at random, were hidden from the model.

    `hidden` is the share of the entries that change no prediction, by an exact zero gradient. `compared` is the share
    of these that the target holds, `counted` the share whose error the loss counts, and `visible` the share of the
    counted entries that the model sees.
    """

    name: str
    hidden: float
    compared: float
    counted: float
    visible: float


@probe
def hidden_inputs(sandbox: Sandbox, trial: TrialRun | None, structure: RecordedStructure | None) -> HiddenInputs:
    """Differentiate prediction and target with respect to the input that both are made of."""
    if trial is not None:
        require_run(trial)
    if structure is not None and not structure.is_random and structure.lacks():
        raise NotApplicable("nothing is drawn at random")
    sandbox.ready_to_train()
    batch = samples_of(sandbox).head(SAMPLES).batch
    tape = record(sandbox, batch)
    name = _reconstructed(batch, tape)
    pull = tape.gradient().abs()
    seen, covered, counted = _supports(sandbox, batch, tape, name, pull)
    hidden = ~seen
    if not bool(hidden.any()) or not bool(counted.any()):
        raise NotApplicable("the model sees every entry of the input that it reconstructs")
    again, _, _ = _supports(sandbox, batch, record(sandbox, batch, seed=tape.seed + 1), name, pull)
    if torch.equal(hidden, ~again):
        raise NotApplicable("what is hidden is not drawn at random")
    return HiddenInputs(
        name,
        float(hidden.double().mean()),
        float(covered[hidden].double().mean()),
        float(counted[hidden].double().mean()),
        float((counted & seen).sum() / counted.sum()),
    )


def _reconstructed(batch: Batch, tape: Tape) -> str:
    """Return the input of real numbers that prediction and target are both made of, with random numbers between."""
    values, target = tape.recording.values, tape.target
    if target is None or not values[tape.prediction.number].taint & Taint.RANDOM:
        raise NotApplicable("no random draw takes part in a prediction that is compared with a target")
    shared = set(target.sources) & set(tape.prediction.sources)
    real = [n for n, t in batch.inputs.items() if n in shared and t.is_floating_point()]
    if len(real) != 1 or target.shape != tape.prediction.shape:
        raise NotApplicable("no input of real numbers is reconstructed")
    return real[0]


def _supports(
    sandbox: Sandbox, batch: Batch, tape: Tape, name: str, pull: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return which entries of the input the prediction sees, the target holds, and the loss counts."""
    graded = replace(
        batch,
        raw=map_leaves(lambda p, t: t.detach().clone().requires_grad_() if name_of(p) == name else t, batch.raw),
    )
    run = run_recorded(sandbox, graded, step=tape.is_step, seed=tape.seed)
    if [op.name for op in run.ops[: tape.prediction.op]] != [
        op.name for op in tape.recording.ops[: tape.prediction.op]
    ]:
        raise TapeUnreadable("a run that differentiates the input takes other operations")
    target = tape.target
    begun = next((v.tensor for v in run.values if v.producer < 0 and v.sources == {name} and v.requires_grad), None)
    made = [run.values[n].tensor for n in (tape.prediction.number, target.number if target is not None else -1)]
    if begun is None or any(t is None or not t.requires_grad for t in made) or pull.shape != made[1].shape:  # type: ignore[union-attr]
        raise TapeUnreadable("the input cannot be differentiated")
    noise = torch.rand(pull.shape, generator=torch.Generator().manual_seed(0)).to(pull) + 0.5
    wanted = ((made[0], noise), (made[1], noise), (made[1], noise * (pull > 0)))
    found = [_gradient(value, weight, begun) for value, weight in wanted]
    return found[0] != 0, found[1] != 0, found[2] != 0


def _gradient(value: torch.Tensor | None, weight: torch.Tensor, begun: torch.Tensor) -> torch.Tensor:
    assert value is not None
    try:
        (found,) = torch.autograd.grad((value * weight).sum(), begun, retain_graph=True, allow_unused=True)
    except RuntimeError as error:  # a step has gone backward through it
        raise TapeUnreadable(f"the input cannot be differentiated: {error}") from None
    return found if found is not None else torch.zeros_like(begun)
