"""The recorder: puts passes and steps together, keeps its budget, and moves what came in into the history."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from nbdebug.watch.passes import Passes
from nbdebug.watch.sample import LayerName, ParameterName, Sample
from nbdebug.watch.steps import Followed, Steps
from nbdebug.watch.store import Store
from nbdebug.watch.targets import Target

__all__ = ["Recorder"]

FLUSH_ROWS, FLUSH_SECONDS, FLUSH_SAMPLES = 256, 0.5, 16
REFRESH, PATIENCE = 1.0, 20.0  # measured at least so often: every second, unless that were a twentieth of the time
CREDIT = 0.02  # seconds that may be saved up, so that a pause is not followed by a burst


class Recorder:
    """Records one training. `every` says at which steps layers are measured; None leaves it to the budget."""

    def __init__(self, target: Target, *, every: int | None, budget: float) -> None:
        self.target, self.every, self.budget = target, every, budget
        names = [LayerName(path, type(module).__name__) for path, module in target.layers]
        held = [ParameterName(n, n.rpartition(".")[0], tuple(p.shape), p.numel()) for n, p in target.parameters]
        self.store = Store(names, held)
        self.passes = Passes([module for _, module in target.layers], self._guarded, lambda: None)
        places = {id(p): place for place, (_, p) in enumerate(target.parameters)}
        self.steps = Steps(places, self.passes, self._guarded, self._stepped)
        for name, optimizer in (target.optimizers or {}).items():
            self.steps.follow(name, optimizer)
        self.is_running = False
        self.failure = ""
        self.on_flush: Callable[[], None] = lambda: None
        self.explicit: set[str] = set()
        self.eval_steps = 0
        self.first_eval_step: int | None = None
        self.measured = 0
        self.spent = self.seconds = 0.0
        self._since = 0.0
        self._balance, self._settled = CREDIT, time.perf_counter()
        self._heavy = self._price = self._step_began = self._measured_at = 0.0
        self._flushed = time.perf_counter()
        self._weighed = 0.0
        self._rates: dict[str, float] = {}
        self._rates_step = -1
        self._newest_rates: list[Any] = []
        self._blind_steps = 0
        self._roots = list(target.roots.values())

    # --- on and off ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen."""
        if self.is_running:
            return
        self.is_running, self._since = True, time.perf_counter()
        self.passes.mark = self._settled = self._since
        self.passes.due = self._is_due()
        self.passes.attach(self._roots)
        optimizers = self.target.optimizers
        self.steps.attach(None if optimizers is None else list(optimizers.values()))

    def stop(self) -> None:
        """Take every hook off and write down what is pending; harmless when it is done twice."""
        self.steps.detach()
        self.passes.detach()
        if self.is_running:
            self.is_running = False
            self.seconds += time.perf_counter() - self._since
        self.flush()

    def _guarded(self, act: Callable[..., None]) -> Callable[..., None]:
        """Time what a hook does, and let nothing that goes wrong in it reach the training."""

        def acted(*args: Any) -> None:
            if not self.is_running:
                return
            began = time.perf_counter()
            try:
                act(*args)
            except Exception as error:
                self._give_up(error)
            self.spent += time.perf_counter() - began

        return acted

    def _give_up(self, error: Exception) -> None:
        self.failure = f"The recorder failed and switched itself off: {type(error).__name__}: {error}"
        self.is_running = False
        self.steps.detach()
        self.passes.detach()
        error.__traceback__ = None
        warnings.warn(f"nbdebug.watch: {self.failure}. Your training goes on.", RuntimeWarning, stacklevel=4)

    # --- one step -----------------------------------------------------------------------------------------------

    def _stepped(self, one: Followed, seconds: float, sample: Sample | None) -> None:
        """Close a step: write the row of its scalars, and decide whether the next one is measured."""
        passes, store, is_pace = self.passes, self.store, one is self.steps.pace
        if sample is not None:
            sample.outputs, passes.outputs = passes.outputs, []
            sample.step = self.steps.step
            store.samples.append(sample)
            self.measured += is_pace
        scalars = self._loss_of(one, is_pace)
        if not is_pace:
            if scalars:
                store.logged.append((self.steps.step, scalars))
            passes.losses = []
            return
        self._tally_modes()
        times = (*passes.seconds, seconds)
        row = (self.steps.step, scalars, times, float(not passes.eval_mode), float(passes.graphs[0]))
        store.rows.append(row)
        self._note_rates(one)
        self._look_deeper()
        self.steps.step += 1
        passes.reset()
        self._settle()
        passes.mark = time.perf_counter()

    def _loss_of(self, one: Followed, is_pace: bool) -> dict[str, Any]:
        losses = self.passes.losses
        name = "loss" if is_pace else f"loss/{one.name}"
        if not losses or name in self.explicit:
            return {}
        if one.has_closure:
            losses = losses[:1]  # the others are trials of the same step
        loss = losses[0] if len(losses) == 1 else torch.stack([x.reshape(()) for x in losses]).sum()
        return {name: loss if self.steps.scale is None else loss / self.steps.scale}

    def _tally_modes(self) -> None:
        if self.passes.eval_mode and self.passes.passes:
            self.eval_steps += 1
            if self.first_eval_step is None:
                self.first_eval_step = self.steps.step

    def _note_rates(self, one: Followed) -> None:
        """Write the learning rates down where they changed, and once a flush."""
        now = [group.get("lr") for each in self.steps.followed.values() for group in each.optimizer.param_groups[:32]]
        if now == self._newest_rates:
            return
        self._newest_rates, rates = now, {}
        for followed in self.steps.followed.values():
            prefix = "" if len(self.steps.followed) == 1 else f"{followed.name}/"
            for number, group in enumerate(followed.optimizer.param_groups[:32]):
                rates[f"{prefix}{number}"] = group.get("lr", float("nan"))
        step = self.steps.step
        if rates != self._rates:
            if self._rates and self._rates_step < step - 1:
                self.store.rate_rows.append((step - 1, self._rates))
            self._rates = {name: float(rate) for name, rate in rates.items()}
            self.store.rate_rows.append((step, self._rates))
            self._rates_step = step

    def _look_deeper(self) -> None:
        """Look at the layers themselves where steps come without a pass: the model is called by another method."""
        self._blind_steps = 0 if self.passes.passes else self._blind_steps + 1
        if self._blind_steps == 2 and not self.passes.training_passes and len(self._roots) == len(self.target.roots):
            self._roots = [module for _, module in self.target.layers]
            self.passes.attach(self._roots)

    def _settle(self) -> None:
        """Flush where it is time, and take the budget into account."""
        now, store = time.perf_counter(), self.store
        if self.passes.due:
            self._heavy = self._price = self.spent - self._step_began
            self._measured_at = now
        self._step_began = self.spent
        full = len(store.rows) >= FLUSH_ROWS or len(store.samples) >= FLUSH_SAMPLES
        if full or now - self._flushed > FLUSH_SECONDS:
            self.flush()
        self.passes.due = self._is_due()

    def _is_due(self) -> bool:
        """Whether the budget allows to measure the next step; what every step costs is not counted against it."""
        now = time.perf_counter()
        gained, self._settled = self.budget * (now - self._settled), now
        self._balance = min(self._balance + gained - self._heavy, CREDIT)
        self._heavy = 0.0
        if self.every is not None and (self.steps.step + 1) % self.every:
            return False
        return self._balance >= 0 or now - self._measured_at > max(REFRESH, PATIENCE * self._price)

    def flush(self) -> None:
        """Move what is pending into the history, and tell whoever listens."""
        self._flushed = time.perf_counter()
        step = self.steps.step - 1
        if self._rates and self._rates_step < step:
            self.store.rate_rows.append((step, self._rates))
            self._rates_step = step
        self.store.flush()
        if step > self.store.memory_step and self._flushed - self._weighed > REFRESH:
            self._weighed = self._flushed
            self.store.put_memory(step, self.steps.scale)
        if torch._C._current_graph_task_id() == -1:  # never inside a backward pass
            self.on_flush()

    # --- what it costs ----------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds of watching."""
        return self.seconds + (time.perf_counter() - self._since if self.is_running else 0.0)

    @property
    def share(self) -> float:
        """The share of the time that the recorder took itself."""
        return self.spent / max(self.elapsed, 1e-9)
