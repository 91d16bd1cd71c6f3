"""A recording as it is at one moment."""

from __future__ import annotations

from nbdebug.evidence.recording import Recording, StepTally
from nbdebug.watch.recorder.recorder import Recorder
from nbdebug.watch.recorder.store import series_of

__all__ = ["snapshot"]


def snapshot(recorder: Recorder, *, layers: bool = True) -> Recording:
    """Return everything that was recorded so far; what is returned no longer changes.

    Without the layers and their parameters it is quick also for a deep model.
    """
    store = recorder.store
    with store.lock:
        recorder.collect()
        store.flush()
        norms, extras = store.weights.norms.series(), store.extras.series()
        return Recording(
            model=recorder.target.name,
            optimizer=", ".join(type(one.optimizer).__name__ for one in recorder.steps.followed.values()),
            tally=_tally(recorder),
            scalars=series_of(store.scalars),
            rates=series_of(store.rates),
            layers=store.outputs.series() if layers else {},
            parameters=store.weights.series() if layers else {},
            gradient=norms["gradient"],
            used=norms["used"],
            times=store.times.series(),
            training=extras["training"],
            graphs=extras["graphs"],
            memory=store.memory.series()["memory"],
            scale=store.scale.series()["scale"],
            batches=recorder.passes.batches.tally(),
            asked=recorder.passes.asked.tally(),
            asked_small=recorder.passes.asked_small,
            sampled_every=recorder.steps.step / max(recorder.measured, 1),
            share=recorder.share,
            budget=recorder.budget.share,
            seconds=recorder.elapsed,
            device=recorder.target.device,
            unseen=_unseen(recorder),
            coverage=recorder.unoptimized.coverage(),
            silent=recorder.units.found(),
        )


def _tally(recorder: Recorder) -> StepTally:
    steps, passes = recorder.steps, recorder.passes
    others = [(one.name, one.steps) for one in steps.followed.values() if one is not steps.pace]
    return StepTally(
        steps=steps.step,
        training_passes=passes.training_passes,
        parts=max(passes.parts, 1),
        evaluation_passes=passes.evaluation_passes,
        backwards=passes.backwards,
        backwards_per_step=tuple(sorted(steps.per_step.items())),
        backwards_since_step=passes.step_backwards + recorder.fast_path.has_backward,
        backwards_discarded=steps.discarded,
        steps_without_backward=steps.without_backward,
        steps_without_gradient=steps.without_gradient,
        leftover_steps=steps.leftover,
        leftover_judged=steps.judged,
        steps_in_eval_mode=recorder.eval_steps,
        first_step_in_eval_mode=recorder.first_eval_step,
        eval_modules=recorder.target.modules_in_eval_mode(),
        mode_modules=recorder.target.modules_that_obey_the_mode(),
        graphs_alive=passes.graphs[0],
        clipped_steps=recorder.store.weights.clipped,
        norms_compared=recorder.store.weights.compared,
        other_optimizers=tuple(others),
        rivals=sum(one.alone > one.steps / 2 for one in steps.followed.values() if one is not steps.pace),
        late_steps=steps.late,
        strangers=tuple(steps.strangers.items()),
        lost_passes=tuple(sorted(steps.lost.items())),
        changed_outside=tuple(steps.outside),
    )


def _unseen(recorder: Recorder) -> tuple[str, ...]:
    notes = [*recorder.target.unseen, *([recorder.failure] if recorder.failure else [])]
    if not recorder.steps.step and recorder.passes.backwards and recorder.unoptimized.has_moved():
        notes.append(
            "The weights changed all the same: something else trains them. nbdebug.watch(model), without an optimizer, "
            "follows every one that steps."
        )
    if recorder.steps.step and "loss" not in recorder.store.scalars:
        notes.append("No loss was recorded: log it with live.log(loss=loss).")
    if recorder.steps.step and not recorder.passes.training_passes:
        notes.append("No forward pass was recorded, so the layers' outputs are unknown.")
    if recorder.measured and recorder.passes.training_passes and _is_closed(recorder):
        notes.append("Only the output of the model was recorded: its layers are not called as torch modules.")
    if recorder.store.lost:
        notes.append(recorder.store.lost)
    return tuple(notes)


def _is_closed(recorder: Recorder) -> bool:
    """Whether the model gave something at a measured step, and of its layers none did."""
    seen, roots = set(recorder.store.outputs.seen()), set(map(id, recorder.target.roots.values()))
    inner = {path for path, module in recorder.target.layers if id(module) not in roots}
    return bool(seen and inner) and not seen & inner
