"""The recorder: puts passes and steps together, keeps its budget, and moves what came in into the history."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

from nbdebug.core.torch_compat import backward_id
from nbdebug.setup.distributed.pieces import kind_of, piece_of
from nbdebug.watch.recorder.budget import Budget, is_common
from nbdebug.watch.recorder.fast_path import FastPath
from nbdebug.watch.recorder.followed import Followed
from nbdebug.watch.recorder.guarded import Guarded
from nbdebug.watch.recorder.passes import RARELY, Passes
from nbdebug.watch.recorder.rates import Rates
from nbdebug.watch.recorder.sample import LayerName, ParameterName, Sample
from nbdebug.watch.recorder.steps import Steps
from nbdebug.watch.recorder.store import Store
from nbdebug.watch.recorder.targets import Target
from nbdebug.watch.recorder.units import Units
from nbdebug.watch.recorder.unoptimized_params import UnoptimizedParams

__all__ = ["Recorder"]

FLUSH_ROWS, FLUSH_SAMPLES = 256, 32
HEARD, UNHEARD = 0.5, 10.0  # seconds between two flushes, with a listener and without one
SPREAD = 1.15  # layers are measured at the latest when so many times the steps of the last time were made
WEIGHED = 1.0  # seconds between two looks at the memory


class Recorder:
    """Records one training. `every` says at which steps layers are measured; None leaves it to the budget."""

    def __init__(self, target: Target, *, every: int | None, budget: float) -> None:
        self.target, self.budget = target, Budget(every, budget)
        names = [LayerName(path, kind_of(module).__name__) for path, module in target.layers]
        held = [
            ParameterName(n, n.rpartition(".")[0], tuple(p.shape), piece_of(p).numel()) for n, p in target.parameters
        ]
        self.store = Store(names, held)
        self.passes = Passes([module for _, module in target.layers], self._guarded, self.give_up)
        places = {id(p): place for place, (_, p) in enumerate(target.parameters)}
        self.steps = Steps(places, self.passes, self._guarded, self._stepped)
        for name, optimizer in (target.optimizers or {}).items():
            self.steps.follow(name, optimizer)
        self.rates, self.fast_path = Rates(self.steps, self.store), FastPath(self)
        self.unoptimized = UnoptimizedParams(target.parameters, self.steps)
        self.units = Units(self.passes.hooks, [path for path, _ in target.layers], self.passes.gather.wanted)
        self.is_running = self.has_loose_ends = False
        self.failure = ""
        self.on_flush: Callable[[], None] = lambda: None
        self.is_heard: Callable[[], bool] = lambda: False
        self.explicit: set[str] = set()
        self.eval_steps = 0
        self.first_eval_step: int | None = None
        self.measured = 0
        self.spent = self.seconds = 0.0
        self.weight = 1  # of the times of this step among all that were spent; 0 where none are taken
        self._since = 0.0
        self.hook_began = self._step_began = self._settled = 0.0
        self._flushed = perf_counter()
        self._weighed = 0.0
        self._blind_steps = 0
        self._wait = self._waited = 0.0  # seconds of training until the next measurement, and since the last
        self._measured_at = 0
        self._surely: float = 0  # the step at which layers are measured whatever the budget says
        self._busy = 0.0  # seconds of passes and steps that the budget was not told yet
        self._roots = list(target.roots.values())

    # --- on and off ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen."""
        if self.is_running:
            return
        self.is_running, self._since = True, perf_counter()
        self.passes.mark = self._settled = self._since
        self.passes.due = self._is_due(self.steps.step)
        self.unoptimized.look()
        self.passes.attach(self._roots)
        optimizers = self.target.optimizers
        self.steps.attach(None if optimizers is None else list(optimizers.values()))

    def stop(self) -> None:
        """Take every hook off and write down what is pending; harmless when it is done twice."""
        self.fast_path.leave()
        self.detach()
        if self.is_running:
            self.is_running = False
            self.seconds += perf_counter() - self._since
        self.flush()

    def detach(self) -> None:
        """Take every hook off; where a step is being made, the last ones go at the next pass."""
        self.units.stop()
        self.has_loose_ends = not self.steps.detach()
        self.passes.detach(all_of_them=not self.has_loose_ends)

    def _guarded(self, act: Callable[..., None]) -> Guarded:
        return Guarded(self, act)

    def give_up(self, error: Exception) -> None:
        """Switch off for good, and say so once; the training goes on."""
        self.failure = f"The recorder failed and is disabled: {type(error).__name__}: {error}"
        self.is_running = False
        self.fast_path.close()
        self.detach()
        error.__traceback__ = None
        warnings.warn(f"nbdebug.watch: {self.failure}. Your training continues.", RuntimeWarning, stacklevel=3)

    # --- one step -----------------------------------------------------------------------------------------------

    def _stepped(self, one: Followed, seconds: float, sample: Sample | None) -> None:
        """Close a step: write the row of its scalars, and decide whether the next one is measured."""
        passes, store, is_pace = self.passes, self.store, one is self.steps.pace
        if sample is not None:
            sample.outputs, passes.outputs = passes.outputs, []
            sample.step = self.steps.step
            store.samples.append(sample)
            if is_pace:
                self.measured += 1
                self.units.look()
        if not is_pace:
            loss = self._loss_of(one, f"loss/{one.name}")
            if loss is not None:
                store.logged.append((self.steps.step, {f"loss/{one.name}": loss}))
            passes.losses.clear()
            return
        if passes.eval_mode and passes.passes:
            self._tally_eval_mode()
        data, forward, backward = passes.seconds
        loss = self._loss_of(one, "loss")
        row = (self.steps.step, loss, data, forward, backward, seconds, not passes.eval_mode, passes.graphs[0])
        store.rows.append(row)
        self.rates.note(self.rates.now())
        if passes.passes:
            self._blind_steps = 0
        else:
            self._look_deeper()
        self.steps.step += 1
        if passes.looks:
            self.unoptimized.look()
        if sample is None:
            self.fast_path.judge()
        passes.reset()
        self._busy += forward + backward + seconds if forward else 0.0
        self._settle(is_measured=sample is not None)

    def collect(self) -> None:
        """Take in the ordinary steps that were only noted so far."""
        fast_path, store, steps = self.fast_path, self.store, self.steps
        with store.lock:
            while fast_path.noted:  # one by one, so that an interrupt in the middle loses none
                loss, data, forward, backward, seconds, rates = fast_path.noted[0]
                self.rates.note(rates)
                store.rows.append((steps.step, loss, data, forward, backward, seconds, True, self.passes.graphs[0]))
                self._busy += forward + backward + seconds
                self.passes.training_passes += 1
                self.passes.backwards += 1
                steps.count_one()
                del fast_path.noted[0]

    def passed(self) -> None:
        """Take stock after some ordinary steps."""
        try:
            self.collect()
            self._settle(is_measured=False)
        except Exception as error:
            self.give_up(error)

    def _loss_of(self, one: Followed, name: str) -> Any:
        losses = self.passes.losses
        if not losses or (one is not self.steps.pace and name in self.explicit):
            return None
        # Those of a closure after the first are trials of the same step.
        loss = losses[0] if len(losses) == 1 or one.has_closure else sum(losses)
        return loss if self.steps.scale is None else loss / self.steps.scale

    def _tally_eval_mode(self) -> None:
        self.eval_steps += 1
        if self.first_eval_step is None:
            self.first_eval_step = self.steps.step

    def _look_deeper(self) -> None:
        """Look at the layers themselves where steps come without a pass: the model is called by another method."""
        self._blind_steps += 1
        if self._blind_steps == 2 and not self.passes.training_passes and len(self._roots) == len(self.target.roots):
            self.look_inside()

    def look_inside(self) -> None:
        """Take the passes of every layer for those of the model, which is not called as a whole."""
        self.fast_path.leave()
        self._roots = [module for _, module in self.target.layers]
        if self.is_running:
            self.passes.attach(self._roots)

    def _settle(self, *, is_measured: bool) -> None:
        """Flush where it is time, and ask the budget for the next step."""
        store, now, step = self.store, perf_counter(), self.steps.step
        silence = now - self._flushed
        is_full = len(store.rows) >= FLUSH_ROWS or len(store.samples) >= FLUSH_SAMPLES
        if is_full or (silence > HEARD and (silence > UNHEARD or self.is_heard())):
            self.flush()
            now = perf_counter()
        elapsed, self.passes.mark, self._settled = now - self._settled, now, now
        self._waited += self._busy if self._busy and self.budget.every is None else elapsed
        self._busy = 0.0
        if is_measured:
            price = self.spent + now - self.hook_began - self._step_began
            self._wait, self._waited = self.budget.after(self._waited, price), 0.0
            self._measured_at = step
            self._surely = int(SPREAD * step) + 1 if self.budget.share else math.inf
        self.passes.due = due = self._is_due(step)
        if self.weight:
            self._step_began = self.spent + self.weight * (now - self.hook_began)
        free = self.passes.plan(step)
        # What is not measured is timed now and then, and counts for the others.
        self.weight = 1 if due or self.passes.is_early else RARELY if self.passes.looks else 0
        free = int(min(free, max(self._surely - step, 1) if self.budget.every is None else -step % self.budget.every))
        pause = self._wait - self._waited
        self.fast_path.open(0 if due else free, now + (pause if 0 < pause < HEARD / 2 else HEARD / 2))

    def _is_due(self, step: int) -> bool:
        """Whether the layers are measured at this step."""
        every = self.budget.every
        if every is not None:
            return self._waited >= self._wait and step % every == 0
        # The processes of a sharded model each keep a budget of their own; so they meet at multiples of powers of two.
        is_time = self._waited >= self._wait or step >= self._surely
        return is_time and not (self.target.is_sharded and not is_common(step, step - self._measured_at))

    def flush(self) -> None:
        """Move what is pending into the history, and tell whoever listens."""
        self.collect()
        self._flushed = perf_counter()
        step = self.steps.step - 1
        self.rates.repeat(step)
        self.store.flush()
        if step > self.store.memory_step and self._flushed - self._weighed > WEIGHED:
            self._weighed = self._flushed
            self.store.put_memory(step, self.steps.scale)
        if backward_id() == -1:  # never inside a backward pass
            self.on_flush()

    @property
    def step(self) -> int:
        """How many steps were made."""
        return self.steps.step + len(self.fast_path.noted)

    @property
    def is_in_step(self) -> bool:
        """Whether there was a forward pass since the last step."""
        return bool(self.passes.passes) or self.fast_path.is_taken

    # --- what it costs ----------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds of watching."""
        return self.seconds + (perf_counter() - self._since if self.is_running else 0.0)

    @property
    def share(self) -> float:
        """The share of the time that the recorder took itself."""
        return self.spent / max(self.elapsed, 1e-9)
