"""Verdicts about forward and backward passes: what fails, what is not finite, and what depends on what."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.passes.batch_mixing import BatchMixing, BatchOrder
from nbdebug.checks.passes.batchnorm_misused import NormFacts, Norms
from nbdebug.checks.passes.checkpoint_not_loaded import CheckpointMatch, TensorMatch
from nbdebug.checks.passes.custom_backward_wrong import CustomGradient, CustomGradients
from nbdebug.checks.passes.hardcoded_batch_size import BatchSizes, SizeFailure
from nbdebug.checks.passes.inputs_ignored import IgnoredPart, InputInfluence
from nbdebug.checks.passes.nondeterministic_eval import EvalNoise, RandomCall
from nbdebug.checks.passes.not_reproducible import Repeats
from nbdebug.checks.passes.outputs_identical import OutputResponse
from nbdebug.checks.passes.reshape_mixes_axes import MixedAxes, Reshapes
from nbdebug.checks.passes.train_eval_gap import ModeGap
from nbdebug.evidence.finite_passes import FinitePasses, NonFinite
from nbdebug.evidence.padding import PaddingTrial
from nbdebug.evidence.step_modes import StepModes
from nbdebug.evidence.trial_run import TrialRun
from tests.verdicts.table import Table, minimal


def mixing(influence: float, noise: float = 0.0, **facts: Any) -> tuple[BatchMixing, None]:
    """Return how much one sample changes the outputs of others."""
    return minimal(BatchMixing, influence=influence, noise=noise, **facts), None


def order(influence: float, noise: float = 0.0) -> tuple[Any, BatchOrder]:
    """Return how much another order of the samples changes their outputs."""
    return mixing(0.0)[0], minimal(BatchOrder, influence=influence, noise=noise)


table = Table("batch-mixing")
table.row("independent samples", "silent", *mixing(0.0))
table.row("statistics of the batch", "note", *mixing(0.1, batch_statistics=True))
table.row("time may come first", "note", *mixing(0.1, sure=False))
table.row("another order", "bug", *order(0.1))
table.pair("influence", mixing, {1.1e-3: "bug", 0.9e-3: "silent"})
table.pair("noises", lambda times: order(1e-3 * times, 1e-3), {11.0: "bug", 9.0: "silent"})


def norm(batch_size: int = 32, last_batch: int | None = None, handed: bool = True, **facts: Any) -> Norms:
    """Return one BatchNorm that works, unless the facts say otherwise."""
    known = {"module": "BatchNorm1d", "momentum": 0.1, "tracks": True, "training": True, "moves": True, "values": 32}
    layer = minimal(NormFacts, path="1", **{**known, **facts})
    return Norms((layer,), handed, batch_size, last_batch, "ValueError: one value" if last_batch == 1 else "")


table = Table("batchnorm-misused")
table.row("running statistics that follow", "silent", norm())
table.row("running statistics that stay", "bug", norm(moves=False, default=True))
table.row("single samples", "bug", norm(1, values=1))
table.row("single images", "suspect", norm(1, values=64))
table.row("a single last sample", "bug", norm(last_batch=1))
table.pair("momentum", lambda momentum: norm(momentum=momentum), {0.91: "suspect", 0.89: "silent"})
table.pair("far", lambda off: norm(training=False, default=True, off=off), {1.1: "suspect", 0.9: "silent"})
table.pair("few", lambda count: norm(count, values=count), {3: "note", 4: "silent"})


def checkpoint(state: str, count: int, unused: tuple[str, ...] = (), equal: int = 100) -> CheckpointMatch:
    """Return a tensor with so many values in this state, beside one that is equal."""
    tensors = [TensorMatch("head.weight", "head.weight", state, 0.0, count)]
    tensors += [TensorMatch("body.weight", "body.weight", "equal", 1.0, equal - count)] if equal else []
    return CheckpointMatch("the checkpoint", tuple(tensors), "", False, unused)


table = Table("checkpoint-not-loaded")
table.row("loaded", "silent", checkpoint("equal", 50))
table.row("a new head", "note", checkpoint("absent", 50))
table.row("no name fits", "suspect", checkpoint("absent", 50, ("module.head.weight",), equal=0))
table.pair("few", lambda count: checkpoint("other", count), {6: "bug", 5: "suspect"})


def backward(error: float, **facts: Any) -> CustomGradients:
    """Return a backward that is so far from finite differences."""
    known = {"function": "Cube", "argument": "x", "nature": "smooth", "precision": "double", **facts}
    return CustomGradients(("Cube",), (minimal(CustomGradient, error=error, **known),))


table = Table("custom-backward-wrong")
table.row("right", "silent", backward(0.0))
table.row("wrong on purpose", "note", backward(1.0, function="RoundSTE"))
table.row("a gradient of steps", "silent", backward(1.0, nature="steps"))
table.row("a gradient where the forward is flat", "suspect", backward(0.0, flat_but_given=3))
table.pair("error", backward, {0.011: "bug", 0.009: "silent"})
table.pair("error_in_single", lambda error: backward(error, precision="single"), {0.21: "bug", 0.19: "silent"})

FAILED = TrialRun("forward", "RuntimeError: shapes", "0", "Linear", ((64, 3),), ("float32",))
table = Table("forward-fails")
table.row("runs", "silent", TrialRun(""))
table.row("fails", "bug", FAILED)
table.row("fails in another batch", "bug", TrialRun("", later=FAILED))
table.row("may be called in another way", "suspect", TrialRun("forward", "TypeError: two arguments", misread=True))


def sizes(*failed: int, **facts: Any) -> BatchSizes:
    """Return a batch size of 64 and others that were tried, of which these fail."""
    kept = facts.pop("kept", ())
    failures = tuple(SizeFailure(size, "training", "0", "Linear", "RuntimeError: shape", kept=kept) for size in failed)
    return minimal(BatchSizes, own=64, **{"tried": (1, 31, 32), "failures": failures, "meets_others": True, **facts})


table = Table("hardcoded-batch-size")
table.row("nothing to try", "not applicable", sizes(tried=(1,)))
table.row("all run", "silent", sizes())
table.row("odd sizes fail", "silent", sizes(31))
table.row("all smaller ones fail", "bug", sizes(31, 32))
table.row("all smaller ones fail, and none comes", "suspect", sizes(31, 32, meets_others=False))
table.row("a single sample fails", "silent", sizes(1, tried=(1, 32)))
table.row("one even size fails", "note", sizes(32, tried=(16, 32)))
table.row("a state that is kept", "suspect", sizes(31, 32, kept=("hidden",)))
table.row("a state that can be reset", "note", sizes(31, 32, kept=("hidden",), resets=("reset",)))


def ignored(part: str, count: int = 0, **facts: Any) -> InputInfluence:
    """Return so many of a hundred parts of an input that change nothing."""
    return minimal(InputInfluence, ignored=(IgnoredPart("x", part, tuple(range(count)), 100),), **facts)


table = Table("inputs-ignored")
table.row("all used", "silent", minimal(InputInfluence), None)
table.row("a whole input", "bug", ignored("input"), None)
table.row("a named input", "note", ignored("input", by_name=True), None)
table.row("a column", "suspect", ignored("column", 1), None)
table.row("a column at the border of a convolution", "note", ignored("column", 1, windowed=True), None)
table.pair("steps", lambda count: (ignored("step", count), None), {51: "suspect", 50: "silent"})
MASK = minimal(InputInfluence, ignored=(IgnoredPart("mask", "input", mask_of="ids"),))
table.row("a mask, and nothing is padded", "note", MASK, None)
table.row("a mask of another input", "note", MASK, PaddingTrial("other", 0.0, 0.4, 32, 20, influence=1.0))
table.pair(
    "padded",
    lambda moved: (MASK, PaddingTrial("ids", 0.0, 0.4, 32, 20, influence=moved)),
    {0.21: "suspect", 0.19: "note"},
)


def modes(**facts: Any) -> StepModes:
    """Return a model with one BatchNorm and a training step, in training mode unless the facts say otherwise."""
    return StepModes(**{"handed_training": True, "sensitive": ("norm",), "has_step": True, **facts})


table = Table("left-in-eval-mode")
table.row("in training mode", "silent", modes())
table.row("switched to eval mode", "bug", modes(put_to_eval=("norm",)))
table.row("left in eval mode", "suspect", modes(left_in_eval=("norm",)))
table.row("handed over in eval mode, and trained so", "suspect", modes(handed_training=False, eval_as_handed=True))
table.row("handed over in eval mode", "note", modes(handed_training=False, has_step=False))

NAN = minimal(NonFinite, kind="NaN", operation="log", where="0")
table = Table("non-finite-backward")
table.row("the forward pass already", "not applicable", FinitePasses(4, forward=NAN))
table.row("no gradient", "not applicable", FinitePasses(4, has_gradient=False))
table.row("finite", "silent", FinitePasses(4))
table.row("NaN", "bug", FinitePasses(4, backward=NAN))

table = Table("non-finite-forward")
table.row("from the inputs", "not applicable", FinitePasses(4, bad_inputs=1))
table.row("finite", "silent", FinitePasses(4))
table.row("NaN", "bug", FinitePasses(4, forward=NAN))
table.row("NaN that the loss does not see", "note", FinitePasses(4, quiet=NAN))


def noise(
    changed: float, repeated: float = 0.0, call: RandomCall | None = None, plain: bool = True, learned: bool = False
) -> EvalNoise:
    """Return how much the outputs change from run to run."""
    calls = (call or RandomCall("dropout", "dropout", "1", True),)
    return EvalNoise(changed, repeated, "1", "Dropout", calls, plain, "classification", learned)


table = Table("nondeterministic-eval")
table.row("the same again", "silent", noise(0.0))
table.row("dropout on purpose", "note", noise(1.0, call=RandomCall("dropout", "dropout", "1", True, "training=True")))
table.row("noise", "suspect", noise(1.0, call=RandomCall("randn", "normal", "1", True)))
table.row("a learned scale", "note", noise(1.0, call=RandomCall("randn", "normal", "1", True), learned=True))
table.row("a model that samples", "note", noise(1.0, call=RandomCall("randn", "normal", "1", True), plain=False))
table.pair("change", noise, {1.1e-3: "bug", 0.9e-3: "silent"})
table.pair("noises", lambda times: noise(1e-3 * times, 1e-3), {11.0: "bug", 9.0: "silent"})

table = Table("not-reproducible")
table.row("the same again", "silent", minimal(Repeats))
table.row("samples that never repeat", "suspect", minimal(Repeats, restless_samples=3, samples=10))
table.pair("difference", lambda d: minimal(Repeats, loss_difference=d), {1.1e-4: "suspect", 0.9e-4: "silent"})


def outputs(response: float, **facts: Any) -> OutputResponse:
    """Return how much the outputs change with the inputs."""
    return minimal(OutputResponse, response=response, **{"inputs_differ": True, **facts})


table = Table("outputs-identical")
table.row("identical inputs", "not applicable", outputs(0.0, inputs_differ=False))
table.row("zero until the first step", "silent", outputs(0.0, shaken=True))
table.pair("response", outputs, {0.9e-6: "bug", 1.1e-6: "silent"})


def gap(**facts: Any) -> ModeGap:
    """Return a training from a loss of 1 to 0, in both modes alike unless the facts say otherwise."""
    return minimal(ModeGap, steps=40, **{"start": 1.0, **facts})


table = Table("train-eval-gap")
table.row("alike", "silent", gap())
table.row("a loss of zero", "not applicable", gap(start=0.0))
table.row("not settled yet", "note", gap(eval=1.0))
table.pair("lost", lambda share: gap(settled=share), {0.51: "suspect", 0.49: "silent"})
table.pair("trained", lambda loss: gap(chance=1.0, given_train=loss, given_eval=2.0), {0.49: "suspect", 0.51: "silent"})
table.pair("learned", lambda fell: gap(train=1 - fell, settled=1.0), {0.11: "suspect", 0.09: "not applicable"})


def mixed(batch_axis: bool) -> Reshapes:
    """Return one reshape that mixes axes."""
    shapes = ((16, 20, 8), (16, 8, 20), (20, 8), (8, 20))
    return Reshapes(3, (MixedAxes("view", "body", *shapes, batch_axis=batch_axis),))


table = Table("reshape-mixes-axes")
table.row("no reshape", "not applicable", Reshapes(0, ()))
table.row("heads are split", "silent", Reshapes(3, ()))
table.row("channels and time", "suspect", mixed(batch_axis=False))
table.row("samples and directions", "bug", mixed(batch_axis=True))
