"""A mode that writes down every torch function of a run, with what its operands are made of."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from nbdebug.core.torch_compat import is_transforming
from nbdebug.experiments.tape.aliases import Aliases
from nbdebug.experiments.tape.calls import (
    Exchange,
    autocast_of,
    is_in_torch,
    modified_by,
    random_state,
    version_of,
)
from nbdebug.experiments.tape.ops import Op, Recording, Use, Value, op_name, tensors_of
from nbdebug.experiments.tape.taint import Origins, Taint, read_operands
from nbdebug.setup.nested import map_tensors

__all__ = ["ReachedEnd", "Recorder"]

# Reading these of a tensor gives a tensor with its values; all else that is read of one only describes it.
_VALUES = ("data", "T", "H", "mT", "mH", "real", "imag")
_ESCAPES = ("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__", "__complex__")
_QUERIES = (
    "size", "dim", "numel", "stride", "__len__", "is_floating_point", "is_complex", "is_contiguous", "data_ptr",
    "__hash__", "__repr__", "storage_offset", "nelement", "element_size", "get_device", "backward", "register_hook",
    "retain_grad", "__format__", "untyped_storage", "_is_view", "ndimension",
)  # fmt: skip


LARGE = 2**20  # numbers in a value that no parameter takes part in, above which it is not kept


class ReachedEnd(BaseException):
    """Ends a run as soon as the values asked for are made; no handler of the user's catches it."""


class Recorder(TorchFunctionMode):
    """Records the ops of one run; `overrides` exchanges values by their numbers while it runs.

    With `last`, the run ends as soon as the value of that number is made. With `keep_data`, values that no parameter
    takes part in are kept as well, unless they are large.
    """

    def __init__(
        self,
        origins: Origins,
        overrides: dict[int, torch.Tensor] | None = None,
        last: int | None = None,
        keep_data: bool = False,
    ) -> None:
        super().__init__()
        self._last, self._keeps_data = last, keep_data
        self.recording = Recording()
        self.origins = origins
        self.open_modules: list[str] = []
        self._overrides = overrides or {}
        self._exchanged: dict[int, torch.Tensor] = {}  # by the id of a tensor that no op made
        self._numbers: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._aliases = Aliases(self)
        self._thread, self._pauses = threading.get_ident(), 0

    @property
    def is_paused(self) -> bool:
        """Whether ops are not written down now: in a backward pass, in a custom function, in another thread."""
        return self._pauses > 0 or not self.is_this_thread

    @property
    def is_this_thread(self) -> bool:
        """Whether the recorded run is what calls, and not other code that trains meanwhile."""
        return threading.get_ident() == self._thread

    def unrecorded(self, call: Callable[[], Any]) -> Any:
        """Call something without recording the ops inside."""
        self._pauses += 1
        try:
            return call()
        finally:
            self._pauses -= 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record one call of a torch function."""
        kwargs = kwargs or {}
        name = op_name(func)
        property_read = getattr(func, "__name__", "") == "__get__" and name not in _VALUES
        if self.is_paused or property_read or name in _QUERIES or is_transforming():
            return func(*args, **kwargs)
        return self.call(name, func, args, kwargs)

    def call(self, name: str, func: Any, args: Any, kwargs: Any, is_custom: bool = False) -> Any:
        """Run a torch function and write down what it did."""
        if self._overrides:
            args, kwargs = map_tensors(self._exchange_leaf, (args, kwargs))
        operands = tensors_of(args, kwargs)
        numbers = tuple(self.number_of(tensor) for tensor in operands)
        if name in _ESCAPES:
            if not is_in_torch(sys._getframe(1)):
                self._note_escape(numbers)
            return func(*args, **kwargs)
        if name == "grad":
            self._note_differentiated(*args[:2])
        was_live = any(self.recording.values[n].is_live for n in numbers)
        self._save_before_change(name, args, kwargs, was_live)
        stored = map_tensors(lambda tensor: Use(self.number_of(tensor)), (args, kwargs))
        op = Op(len(self.recording.ops), name, func, stored[0], stored[1], numbers, is_custom=is_custom)
        op.has_grad, op.autocast = torch.is_grad_enabled(), autocast_of(operands)
        op.module = self.open_modules[-1] if self.open_modules else ""
        versions = [version_of(tensor) for tensor in operands]
        generator, state = random_state(kwargs)
        result = func(*args, **kwargs)
        if not torch.equal(generator.get_state(), state):
            op.random_state = (generator, state)
        changed = [t for t, version in zip(operands, versions, strict=True) if version_of(t) != version]
        return self._written(op, operands, changed, result, was_live)

    def add_root(self, loss: torch.Tensor) -> None:
        """Write down that this is a loss."""
        value = self.recording.values[self.number_of(loss)]
        value.tensor = loss.detach()
        self.recording.roots.append(value.number)

    def number_of(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's present value; one that is met for the first time gets one."""
        known = self._numbers.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        taint, sources = self.origins.of(tensor)
        is_live = bool(taint & Taint.UNSEEN)
        value = self.new_value(tensor, taint, sources, is_live, -1)
        value.tensor = tensor if is_live or self._is_kept(tensor) else None
        self.recording.leaves.setdefault(id(tensor), value.number)
        return value.number

    def new_value(
        self, tensor: torch.Tensor, taint: Taint, sources: frozenset[str], is_live: bool, producer: int
    ) -> Value:
        """Write down a tensor as it is now."""
        number = len(self.recording.values)
        value = Value(number, taint, sources, tuple(tensor.shape), tensor.requires_grad, is_live, producer)
        value.tensor = tensor if (is_live and producer >= 0) or self._is_kept(tensor) else None
        self.recording.values.append(value)
        self._numbers[id(tensor)] = (weakref.ref(tensor), number)
        return value

    def _written(
        self, op: Op, operands: list[torch.Tensor], changed: list[torch.Tensor], result: Any, live: bool
    ) -> Any:
        given, altered = {id(t) for t in operands}, {id(t) for t in changed}
        made = [t for t in tensors_of(result) if id(t) not in given or id(t) in altered]
        made += [t for t in changed if all(t is not other for other in made)]
        if not made:  # a question, or the same tensor again, as `.contiguous()` may return it
            return result
        self.recording.ops.append(op)
        live = live or any(t.grad_fn is not None for t in made)
        if live:
            for tensor, number in zip(operands, op.inputs, strict=True):
                self._keep(number, tensor)
        taint, sources = self._taint(op, made)
        before = {id(t): n for t, n in zip(operands, op.inputs, strict=True)}
        for tensor in made:
            value = self.new_value(tensor, taint, sources, live, op.index)
            if id(tensor) in altered:
                op.changed[before[id(tensor)]] = value.number
        op.outputs = tuple(self._numbers[id(t)][1] for t in tensors_of(result) if id(t) in self._numbers)
        for tensor in made:
            self._aliases.note(tensor)
        if live:
            for tensor in changed:
                self._aliases.after_change(tensor)
        if self._last is not None and len(self.recording.values) > self._last:
            raise ReachedEnd
        return self._override(made, altered, result) if self._overrides else result

    def _taint(self, op: Op, made: list[torch.Tensor]) -> tuple[Taint, frozenset[str]]:
        inputs = [self.recording.values[n] for n in op.inputs]
        taint, sources = Taint.NONE, frozenset[str]()
        if not inputs:
            taint, sources = self.origins.of_factory(op.name, made[0])
        for value in read_operands(op.name, inputs):
            taint |= value.taint & ~Taint.UNSEEN
            sources |= value.sources
        return (taint | Taint.RANDOM if op.random_state is not None else taint), sources

    def _is_kept(self, tensor: torch.Tensor) -> bool:
        return self._keeps_data and not tensor.requires_grad and tensor.numel() <= LARGE

    def _keep(self, number: int, tensor: torch.Tensor) -> None:
        value = self.recording.values[number]
        if value.tensor is None:
            value.tensor = tensor

    def _save_before_change(self, name: str, args: Any, kwargs: Any, is_live: bool) -> None:
        """Clone what is about to be modified in place, if a replay could need it as it was."""
        for tensor in modified_by(name, args, kwargs):
            value = self.recording.values[self.number_of(tensor)]
            if is_live or value.tensor is not None:
                value.tensor = tensor.detach().clone()

    def _note_differentiated(self, outputs: Any, inputs: Any = None) -> None:
        """Take what is differentiated with respect to parameters for a loss, as a loop without backward() does."""
        leaves = [self.recording.values[self.number_of(tensor)] for tensor in tensors_of(inputs)]
        if leaves and all(value.taint == Taint.PARAMETER and value.producer < 0 for value in leaves):
            self.recording.differentiated += [self.number_of(tensor) for tensor in tensors_of(outputs)]

    def _note_escape(self, numbers: tuple[int, ...]) -> None:
        self.origins.left_torch = True
        self.recording.escapes += [(number, len(self.recording.ops)) for number in numbers]

    def _exchange_leaf(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the override of a tensor that came out of code that the tape cannot see into."""
        if id(tensor) in self._exchanged:
            return self._exchanged[id(tensor)]
        number = self.number_of(tensor)
        if number in self._overrides and self.recording.values[number].producer < 0:
            new = self._exchanged_for(tensor, self._overrides[number])
            self._numbers[id(new)] = (weakref.ref(new), number)
            self._exchanged[id(tensor)] = new
            return new
        return tensor

    def _exchanged_for(self, tensor: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        if not tensor.requires_grad or not new.requires_grad or tensor.dtype != new.dtype:
            return new
        found: torch.Tensor = self.unrecorded(lambda: Exchange.apply(tensor, new))  # type: ignore[no-untyped-call]
        return found

    def _override(self, made: list[torch.Tensor], altered: set[int], result: Any) -> Any:
        exchanged: dict[int, torch.Tensor] = {}
        for tensor in made:
            number = self._numbers[id(tensor)][1]
            if number not in self._overrides:
                continue
            new = self._exchanged_for(tensor, self._overrides[number])
            if id(tensor) in altered:
                self.unrecorded(partial(tensor.copy_, new))
            else:
                self._numbers[id(new)] = (weakref.ref(new), number)
                exchanged[id(tensor)] = new
        return map_tensors(lambda tensor: exchanged.get(id(tensor), tensor), result)
