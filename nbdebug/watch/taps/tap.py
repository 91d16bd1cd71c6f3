"""Taps: the values of any module's input, output or gradient, by its name and without editing the model."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from nbdebug.errors import BadInput, plainly
from nbdebug.experiments.inert_hooks import LiveHook
from nbdebug.experiments.source_lines import line_now
from nbdebug.experiments.tensor_stats import facts_of
from nbdebug.setup.nested import first_tensor
from nbdebug.watch.taps.arguments import Of, checked_tap, predicate, whole_number
from nbdebug.watch.taps.expectations import Expectation, ExpectationFailed, expectations, one_answer
from nbdebug.watch.taps.gradients import GradientHooks
from nbdebug.watch.taps.names import chosen
from nbdebug.watch.taps.reading import Reading
from nbdebug.watch.taps.steps import Moment, Steps, is_no_real_pass, is_recomputing
from nbdebug.watch.taps.stopping import Stopper

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Tap", "tap"]

Condition = Callable[[torch.Tensor], Any]
Pick = Callable[[Any], Any]


@plainly
def tap(
    model: nn.Module,
    which: Any = None,
    *,
    of: Of = "output",
    pick: Pick | None = None,
    keep: int = 1,
    history: int = 10_000,
    every: int = 1,
) -> Tap:
    """Look at what flows through modules of a model, from now until `remove()` or the end of the `with` block.

    `which` is a module's name, a pattern (`encoder.*`, `**.norm`), a class, or several of these; without it the whole
    model is meant. `of` is `"output"`,
    `"input"` or `"gradient"` (that of the loss with respect to the output). Where that is a nest of tensors, the first
    one is taken, or what `pick` picks. The last `keep` values of each module are kept as copies, and the statistics
    of the last `history` calls; a step is one call of the model, and only every `every`-th is recorded.

    Args:
        model: Your model.
        which: A module's name, a pattern (`encoder.*`, `**.norm`), a class, or several of these; the whole model by
            default.
        of: "output", "input" or "gradient" (of the loss with respect to the output).
        pick: A function that takes one tensor out of a nest of tensors; the first by default.
        keep: The number of values of each module that are kept as copies.
        history: The number of calls whose statistics are kept.
        every: Only every so many calls of the model are recorded.
    """
    checked_tap(model, of=of, pick=pick, keep=keep, history=history, every=every)
    return Tap(model, chosen(model, which), of, pick or first_tensor, keep, history, every)


class Tap:
    """A hold on some modules of a model; it prints, asserts and stops as it is told, and leaves nothing behind."""

    def __init__(
        self, model: nn.Module, modules: dict[str, nn.Module], of: Of, pick: Pick, keep: int, history: int, every: int
    ) -> None:
        self.modules, self.of = modules, of
        self.readings: deque[Reading] = deque(maxlen=history)
        self._values: dict[str, deque[torch.Tensor]] = {name: deque(maxlen=keep) for name in modules}
        self._pick, self._keep, self._every = pick, keep, every
        self._prints: list[tuple[int, Condition | None, Callable[[str], Any]]] = []
        self._expected: list[Expectation] = []
        self._stopper: Stopper | None = None
        self._steps = Steps()
        self._broken: set[str] = set()  # modules where the tap itself failed
        self._graph_handles = GradientHooks()
        self._model, self._is_taken_back = model, False
        self._handles: list[Any] = []
        self._attach()

    def _attach(self) -> None:
        self._handles += [
            self._model.register_forward_pre_hook(LiveHook(self._steps.begin)),
            self._model.register_forward_hook(LiveHook(self._steps.end), always_call=True),
        ]
        for name, module in self.modules.items():
            self._handles += self._hooked(name, module)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Take a tap back whose first task is refused: a tap that the user does not hold could not be removed."""
        try:
            yield
        except BadInput:
            if self._handles and not (self._prints or self._expected or self._stopper or self.readings):
                self.remove()
                self._is_taken_back = True
            raise
        if self._is_taken_back:
            self._is_taken_back = False
            self._attach()

    def print(self, *, every: int = 1, when: Condition | None = None, show: Callable[[str], Any] = print) -> Tap:
        """Print a line of statistics at every `every`-th step, or only when a condition on the value holds."""
        with self._asked():
            predicate("tap.print", when, optional=True)
            whole_number("tap.print", "every", every)
        self._prints.append((every, when, show))
        return self

    def expect(
        self,
        *,
        finite: bool = False,
        positive: bool = False,
        low: float | None = None,
        high: float | None = None,
        shape: Sequence[Any] | None = None,
        dtype: torch.dtype | str | None = None,
        monotone: str | None = None,
        holds: Condition | None = None,
        **unknown: Any,
    ) -> Tap:
        """Raise `ExpectationFailed`, with the module, the step and the values, as soon as a value is not as expected.

        `low` and `high` bound the values; `monotone` is "rising" or "falling" along the last dimension; `holds` is a
        condition of your own. In `shape=("B", 256)` a letter stands for one size, the same at every tapped module
        within a step; `None` stands for any size and `...` for any dimensions.
        """
        with self._asked():
            predicate("tap.expect", holds, optional=True)
            self._expected += expectations(
                finite=finite,
                positive=positive,
                low=low,
                high=high,
                shape=shape,
                dtype=dtype,
                monotone=monotone,
                holds=holds,
                **unknown,
            )
        return self

    def break_when(self, condition: Condition, *, times: int | None = None) -> Tap:
        """Open the debugger in the frame of the module's forward whenever a condition on the value holds.

        For an output it opens at the line that returns it, for an input at the first line, and for a gradient at the
        line that called backward. `times` is how often at most.
        """
        with self._asked():
            predicate("tap.break_when", condition)
            if times is not None:
                whole_number("tap.break_when", "times", times)
        if self._stopper is None:
            self._stopper = Stopper(self.of, self._pick, self._reading, self._steps)
            for name, module in self.modules.items():
                self._handles += self._stopper.hooked(name, module)
        self._stopper.add(condition, times)
        return self

    @property
    def step(self) -> int:
        """The newest step, from 0 on; -1 before the model is called."""
        return self._steps.newest

    @property
    def values(self) -> dict[str, list[torch.Tensor]]:
        """Copies of the last values of each module, the newest last."""
        return {name: list(kept) for name, kept in self._values.items()}

    @property
    def value(self) -> torch.Tensor | None:
        """A copy of the newest value of all."""
        newest = self.readings[-1].name if self.readings else None
        return self._values[newest][-1] if newest is not None and self._values[newest] else None

    def to_frame(self) -> pd.DataFrame:
        """Return the statistics as a table, one row a call."""
        import pandas as pd

        table: pd.DataFrame = pd.DataFrame([reading.to_dict() for reading in self.readings])
        return table

    def remove(self) -> None:
        """Take everything off the model again; what was recorded stays readable."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._graph_handles.remove()
        if self._stopper is not None:
            self._stopper.stop()

    close = remove

    def __enter__(self) -> Tap:
        """Begin; the tap is on already."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Take it off, also after an error."""
        self.remove()

    def __repr__(self) -> str:
        """Say what is tapped, and the newest reading of each module."""
        newest = {reading.name: reading for reading in self.readings}
        state = "on" if self._handles else "removed from"
        head = (
            f"tap {state} the {self.of} of {', '.join(list(self.modules)[:6])}{', …' if len(self.modules) > 6 else ''}"
        )
        return "\n".join([head, *(f"  {newest[name]}" for name in self.modules if name in newest)])

    def _hooked(self, name: str, module: nn.Module) -> list[Any]:
        if self.of == "input":
            hook = LiveHook(lambda m, args, kwargs: self._see(name, m, (*args, *kwargs.values())))
            return [module.register_forward_pre_hook(hook, with_kwargs=True)]
        after = self._await_gradient if self.of == "gradient" else self._see
        return [module.register_forward_hook(LiveHook(lambda m, args, output: after(name, m, output)))]

    def _see(self, name: str, module: nn.Module, nest: Any) -> None:
        if not is_no_real_pass() and not is_recomputing():
            self._guarded(name, lambda: self._look(name, module, self._pick(nest), self._steps.count(name)))

    def _await_gradient(self, name: str, module: nn.Module, output: Any) -> None:
        """Wait for the gradient of what is picked; only calls that can have one are counted."""
        if is_no_real_pass() or not torch.is_grad_enabled():
            return

        def wait() -> None:
            value = self._pick(output)
            if isinstance(value, torch.Tensor) and value.requires_grad:
                moment = self._steps.count(name)
                self._graph_handles.wait(name, value, lambda grad: self._at_gradient(name, module, grad, moment))

        self._guarded(name, wait)

    def _at_gradient(self, name: str, module: nn.Module, gradient: torch.Tensor, moment: Moment) -> None:
        if is_no_real_pass():
            return
        if self._stopper is not None:
            self._stopper.at_gradient(name, module, gradient, moment)
        self._guarded(name, lambda: self._look(name, module, gradient, moment))

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        """Do something of the tap's own; a fault in it ends the looking at this module and never the training."""
        if name in self._broken:
            return
        try:
            act()
        except ExpectationFailed as failed:
            raise failed.with_traceback(None) from failed.__cause__
        except Exception as error:
            self._broken.add(name)
            warnings.warn(
                f"the tap on {name} is disabled, because it raised: {type(error).__name__}: {error}"
                f"{one_answer(error)}; your model is unaffected",
                stacklevel=2,
            )

    def _look(self, name: str, module: nn.Module, value: Any, moment: Moment) -> None:
        if isinstance(value, torch.Tensor):
            with torch.no_grad():
                self._use(name, module, value.detach(), moment)

    def _use(self, name: str, module: nn.Module, value: torch.Tensor, moment: Moment) -> None:
        if moment.step % self._every == 0:
            self.readings.append(self._reading(name, module, value, moment))
            if self._keep:
                self._values[name].append(value.clone())
        for every, when, show in self._prints:
            if moment.step % every == 0 and (when is None or bool(when(value))):
                show(str(self._reading(name, module, value, moment)))
        for expectation in self._expected:
            found = expectation.fault(value, moment.letters, name)
            if found:
                reading = self._reading(name, module, value, moment)
                raise ExpectationFailed(reading, expectation.says, found, line_now())

    def _reading(self, name: str, module: nn.Module, value: torch.Tensor, moment: Moment) -> Reading:
        kind = type(module).__name__
        return Reading(name, kind, self.of, moment.step, moment.call, module.training, facts_of(value))
