"""The recorder: puts passes and steps together, keeps its budget, and moves what came in into the history."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from nbdebug.watch.budget import Budget
from nbdebug.watch.hooks import QuietHook, is_compiling
from nbdebug.watch.passes import Passes
from nbdebug.watch.sample import LayerName, ParameterName, Sample
from nbdebug.watch.steps import Followed, Steps
from nbdebug.watch.store import Store
from nbdebug.watch.targets import Target

__all__ = ["Recorder"]

FLUSH_ROWS, FLUSH_SAMPLES = 256, 16
HEARD, UNHEARD = 0.5, 10.0  # seconds between two flushes, where somebody listens and where nobody does
MOST_GROUPS = 32  # of an optimizer whose learning rates are followed
WEIGHED = 1.0  # seconds between two looks at the memory


class Recorder:
    """Records one training. `every` says at which steps layers are measured; None leaves it to the budget."""

    def __init__(self, target: Target, *, every: int | None, budget: float) -> None:
        self.target, self.budget = target, Budget(every, budget)
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
        self.is_heard: Callable[[], bool] = lambda: False
        self.explicit: set[str] = set()
        self.eval_steps = 0
        self.first_eval_step: int | None = None
        self.measured = 0
        self.spent = self.seconds = 0.0
        self._since = 0.0
        self._hook_began = self._step_began = self._settled = 0.0
        self._flushed = perf_counter()
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
        self.is_running, self._since = True, perf_counter()
        self.passes.mark = self._settled = self._since
        self.passes.due = self.budget.after(self.steps.step - 1, 0.0, 0.0, None)
        self.passes.attach(self._roots)
        optimizers = self.target.optimizers
        self.steps.attach(None if optimizers is None else list(optimizers.values()))

    def stop(self) -> None:
        """Take every hook off and write down what is pending; harmless when it is done twice."""
        self.steps.detach()
        self.passes.detach()
        if self.is_running:
            self.is_running = False
            self.seconds += perf_counter() - self._since
        self.flush()

    def _guarded(self, act: Callable[..., None]) -> QuietHook:
        return _Guarded(self, act)

    def give_up(self, error: Exception) -> None:
        """Switch off for good, and say so once; the training goes on."""
        self.failure = f"The recorder failed and switched itself off: {type(error).__name__}: {error}"
        self.is_running = False
        self.steps.detach()
        self.passes.detach()
        error.__traceback__ = None
        warnings.warn(f"nbdebug.watch: {self.failure}. Your training goes on.", RuntimeWarning, stacklevel=3)

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
        if passes.eval_mode and passes.passes:
            self._tally_eval_mode()
        times = (*passes.seconds, seconds)
        row = (self.steps.step, scalars, times, float(not passes.eval_mode), float(passes.graphs[0]))
        store.rows.append(row)
        self._note_rates()
        if passes.passes:
            self._blind_steps = 0
        else:
            self._look_deeper()
        self.steps.step += 1
        passes.reset()
        self._settle(sum(times[1:]) if times[1] else 0.0, is_measured=sample is not None)

    def _loss_of(self, one: Followed, is_pace: bool) -> dict[str, Any]:
        losses = self.passes.losses
        name = "loss" if is_pace else f"loss/{one.name}"
        if not losses or name in self.explicit:
            return {}
        if one.has_closure:
            losses = losses[:1]  # the others are trials of the same step
        loss = losses[0] if len(losses) == 1 else sum(losses)
        return {name: loss if self.steps.scale is None else loss / self.steps.scale}

    def _tally_eval_mode(self) -> None:
        self.eval_steps += 1
        if self.first_eval_step is None:
            self.first_eval_step = self.steps.step

    def _note_rates(self) -> None:
        """Write the learning rates down where they changed, and once a flush."""
        followed = self.steps.followed.values()
        now = [_rate(group) for each in followed for group in each.optimizer.param_groups[:MOST_GROUPS]]
        if now == self._newest_rates:
            return
        step, self._newest_rates = self.steps.step, now
        prefixes = ["" if len(followed) == 1 else f"{each.name}/" for each in followed]
        groups = [range(len(each.optimizer.param_groups[:MOST_GROUPS])) for each in followed]
        names = [f"{prefix}{number}" for prefix, own in zip(prefixes, groups, strict=True) for number in own]
        if self._rates and self._rates_step < step - 1:
            self.store.rate_rows.append((step - 1, self._rates))
        self._rates = {name: float(rate) for name, rate in zip(names, now, strict=True)}
        self.store.rate_rows.append((step, self._rates))
        self._rates_step = step

    def _look_deeper(self) -> None:
        """Look at the layers themselves where steps come without a pass: the model is called by another method."""
        self._blind_steps += 1
        if self._blind_steps == 2 and not self.passes.training_passes and len(self._roots) == len(self.target.roots):
            self.look_inside()

    def look_inside(self) -> None:
        """Take the passes of every layer for those of the model, which is not called as a whole."""
        self._roots = [module for _, module in self.target.layers]
        if self.is_running:
            self.passes.attach(self._roots)

    def _settle(self, seconds: float, *, is_measured: bool) -> None:
        """Flush where it is time, and ask the budget for the next step; `seconds` are those of passes and step."""
        store, now = self.store, perf_counter()
        is_full = len(store.rows) >= FLUSH_ROWS or len(store.samples) >= FLUSH_SAMPLES
        if is_full or now - self._flushed > (HEARD if self.is_heard() else UNHEARD):
            self.flush()
            now = perf_counter()
        elapsed, self.passes.mark = now - self._settled, now
        self._settled = now
        spent = self.spent + now - self._hook_began
        price = spent - self._step_began if is_measured else None
        self._step_began = spent
        self.passes.due = self.budget.after(self.steps.step - 1, seconds or elapsed, elapsed, price)

    def flush(self) -> None:
        """Move what is pending into the history, and tell whoever listens."""
        self._flushed = perf_counter()
        step = self.steps.step - 1
        if self._rates and self._rates_step < step:
            self.store.rate_rows.append((step, self._rates))
            self._rates_step = step
        self.store.flush()
        if step > self.store.memory_step and self._flushed - self._weighed > WEIGHED:
            self._weighed = self._flushed
            self.store.put_memory(step, self.steps.scale)
        if torch._C._current_graph_task_id() == -1:  # never inside a backward pass
            self.on_flush()

    # --- what it costs ----------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds of watching."""
        return self.seconds + (perf_counter() - self._since if self.is_running else 0.0)

    @property
    def share(self) -> float:
        """The share of the time that the recorder took itself."""
        return self.spent / max(self.elapsed, 1e-9)


def _rate(group: dict[str, Any]) -> Any:
    """Give the learning rate of a group; a tensor on the CPU is read, because a scheduler writes into it."""
    rate = group.get("lr", math.nan)
    if type(rate) is float:
        return rate
    return rate.item() if isinstance(rate, torch.Tensor) and rate.is_cpu else rate


class _Guarded(QuietHook):
    """Does what a hook is to do and times it, and lets nothing that goes wrong in it reach the training."""

    __slots__ = ("recorder",)

    def __init__(self, recorder: Recorder, act: Callable[..., None]) -> None:
        super().__init__(act)
        self.recorder = recorder

    def __call__(self, *args: Any) -> None:
        recorder = self.recorder
        if not recorder.is_running or is_compiling():
            return
        recorder._hook_began = began = perf_counter()
        try:
            self.act(*args)
        except Exception as error:
            recorder.give_up(error)
        recorder.spent += perf_counter() - began
