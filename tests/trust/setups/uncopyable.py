"""Models with something in them that deepcopy cannot do, or does wrong."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import nn

from tests.trust.setups import adam, case, classify, mlp

SEEN: list[tuple[int, ...]] = []
COUNTS = {"calls": 0}
GLOBAL_GENERATOR = torch.Generator().manual_seed(3)
CALLS = 0


class Around(nn.Module):
    """A network with room for attributes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.body = mlp()
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


@case(quick=True)
def holds_generators() -> dict[str, Any]:
    class Noisy(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            noise = torch.randn(x.shape, generator=self.generator) * self.other.random()
            return self.body(x + 0.1 * noise)

    model = Noisy(generator=torch.Generator().manual_seed(7), other=np.random.default_rng(5))
    return classify(model, optimizer=adam(model))


@case(quick=True)
def names_a_global_generator() -> dict[str, Any]:
    class Noisy(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x + 0.1 * torch.randn(x.shape, generator=GLOBAL_GENERATOR))

    return classify(Noisy(), also=[GLOBAL_GENERATOR])


@case(quick=True)
def caches_a_graph_tensor() -> dict[str, Any]:
    class Caching(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = {"deep": [self.body[0](x)]}
            return self.body(x)

    model = Caching()
    model(torch.randn(4, 6))
    return classify(model)


@case()
def holds_locks() -> dict[str, Any]:
    class Locking(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with self.lock, self.again:
                return self.body(x)

    return classify(Locking(lock=threading.Lock(), again=threading.RLock(), event=threading.Event()))


@case(quick=True)
def holds_open_files() -> dict[str, Any]:
    class Logging(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.log.write(f"{tuple(x.shape)}\n")
            self.table.read(2)
            return self.body(x)

    log = open(f"{tempfile.mkdtemp()}/log.txt", "w+")  # noqa: SIM115 - open on purpose
    with tempfile.NamedTemporaryFile("w", delete=False) as written:
        written.write("a table of some length")
    return classify(Logging(log=log, table=open(written.name)))


@case()
def holds_a_module_of_code() -> dict[str, Any]:
    class Functional(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.ops.relu(self.body(x))

    return classify(Functional(ops=functional))


@case()
def holds_an_unused_python_generator() -> dict[str, Any]:
    def numbers() -> Iterator[int]:
        yield from range(10)

    return classify(Around(stream=numbers()))


@case(quick=True)
def refuses_deepcopy() -> dict[str, Any]:
    class Refusing(Around):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("this module does not want to be copied")

    model = Refusing(counter=0)
    return classify(model, optimizer=adam(model))


@case(quick=True)
def nothing_but_functional_call() -> dict[str, Any]:
    class Stubborn(Around):
        """Cannot be rebuilt either: its class demands an argument that nobody has."""

        def __new__(cls, *args: Any, ticket: str = "", **kwargs: Any) -> Any:
            if not ticket:
                raise TypeError("no ticket, no object")
            return super().__new__(cls)

        def __init__(self, ticket: str) -> None:
            super().__init__(calls=0, history=[])
            self.norm = nn.BatchNorm1d(6)

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("this module does not want to be copied")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.history.append(x.shape)
            return self.body(self.norm(x))

    model = Stubborn(ticket="yes")
    return classify(model, optimizer=adam(model))


@case(quick=True)
def closure_over_itself() -> dict[str, Any]:
    class Lambda(Around):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6))
            self.act = lambda x: x * self.scale
            self.acts = {"again": partial(lambda scale, x: x + scale, self.scale)}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(self.acts["again"](self.act(x)))

    model = Lambda()
    return classify(model, optimizer=adam(model))


@case()
def weak_reference_to_the_parent() -> dict[str, Any]:
    class Child(nn.Module):
        def __init__(self, parent: nn.Module) -> None:
            super().__init__()
            self.parent = weakref.ref(parent)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.parent().body(x)

    class Parent(Around):
        def __init__(self) -> None:
            super().__init__()
            self.child = Child(self)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.child(x)

    model = Parent()
    return classify(model, optimizer=adam(model))


@case(quick=True)
def counts_its_calls() -> dict[str, Any]:
    class Counting(Around):
        every: list[int] = []
        total = 0

        def __init__(self) -> None:
            super().__init__(calls=0, history=[])
            self.register_buffer("seen", torch.zeros((), dtype=torch.long), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.history.append(len(x))
            self.every.append(len(x))
            type(self).total += 1
            self.seen += len(x)
            return self.body(x)

    return classify(Counting())


@case(quick=True)
def writes_to_globals() -> dict[str, Any]:
    class Writing(Around):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            global CALLS
            CALLS += 1
            SEEN.append(tuple(x.shape))
            COUNTS["calls"] += 1
            return self.body(x)

    return classify(Writing(), also=[SEEN, COUNTS, lambda: CALLS])


@case(quick=True)
def own_hooks() -> dict[str, Any]:
    """Hooks of every kind, with state in a closure, in a global and in an object."""
    model, shapes = mlp(), []

    class Recorder:
        def __init__(self) -> None:
            self.means: list[float] = []

        def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
            self.means.append(float(output.mean()))

        def before(self, module: nn.Module, args: Any) -> None:
            self.means.append(0.0)

    recorder = Recorder()
    model[0].register_forward_hook(lambda module, args, output: shapes.append(output.shape))
    model[0].register_forward_hook(lambda module, args, output: SEEN.append(tuple(output.shape)))
    model[1].register_forward_hook(recorder)
    model[1].register_forward_pre_hook(recorder.before)
    model[2].register_full_backward_hook(lambda module, given, taken: shapes.append(taken[0].shape))
    model[0].weight.register_hook(lambda gradient: shapes.append(gradient.shape) or gradient * 0.5)
    model[2].weight.register_post_accumulate_grad_hook(lambda parameter: shapes.append(parameter.shape))
    return classify(model, optimizer=adam(model), also=[shapes, recorder, SEEN])


@case()
def hook_that_keeps_activations() -> dict[str, Any]:
    model, kept = mlp(), {}
    model[0].register_forward_hook(lambda module, args, output: kept.__setitem__("first", output))
    model(torch.randn(4, 6))
    return classify(model, also=[kept])
