"""Live parameters and buffers that a copy reaches by a registry are seen; what only shares their memory is no leak."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from accelerate.utils.operations import convert_outputs_to_fp32
from torch import nn

from nbdebug.errors import CopyNotIsolated
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.functional import FunctionalModel
from tests.sandbox.odd_models import Changed
from tests.sandbox.verified_copies import changes, sandbox_of
from tests.sandbox.wrapped_models import Net, bert
from tests.trust.fingerprint import difference, fingerprint


class Registry(types.ModuleType):
    """A module of code: what it holds is followed by nobody, as the registries of libraries."""

    held: dict[str, Any]


@pytest.fixture
def registry() -> Iterator[Registry]:
    module = Registry("registry_of_a_library")
    module.held = {}
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def held(name: str) -> Any:
    return sys.modules["registry_of_a_library"].held[name]


def test_a_constant_that_is_read_by_two_ways(registry: Registry) -> None:
    """Nothing changes it, so that a run on it gives what a run on its copy would."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return Net.forward(self, x * held("scale"))

    def make() -> nn.Module:
        model = Net()
        model.register_buffer("scale", torch.full((20,), 2.0))
        registry.held["scale"] = model.scale
        model.forward = types.MethodType(forward, model)  # type: ignore[method-assign]
        return model

    assert changes(make) is True


def test_data_that_share_memory_with_a_weight(registry: Registry) -> None:
    """`Embedding.from_pretrained` keeps the memory of the vectors, which a data set may read as well."""
    vectors = registry.held["vectors"] = torch.randn(512, 20)

    class Pretrained(Changed):
        def prepare(self) -> None:
            self.table = nn.Embedding.from_pretrained(vectors)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x + self.table(torch.arange(len(x))) + held("vectors")[: len(x)])

    assert changes(Pretrained) is True


def test_accelerate_around_a_leak(registry: Registry) -> None:
    def make() -> nn.Module:
        model = Net()
        registry.held["weight"] = model.fc1.weight.detach()
        model.forward = convert_outputs_to_fp32(  # type: ignore[method-assign]
            torch.autocast("cpu", torch.bfloat16)(lambda x: model.fc2(torch.relu(x @ held("weight").t())))
        )
        return model

    assert_refused(sandbox_of(make), "did not use its own fc1.weight")


def test_attention_of_transformers_that_holds_a_live_weight() -> None:
    """The registry of attention functions belongs to the library; a function in it is called by its name."""
    scale: list[torch.Tensor] = []

    def scaled(module: nn.Module, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        attend = transformers.AttentionInterface()["sdpa"]
        return attend(module, query * scale[0], key, value, mask, **options)

    def make() -> nn.Module:
        model = bert()
        model.register_parameter("scale", nn.Parameter(torch.ones(()), requires_grad=False))
        scale.append(model.scale)
        model.config._attn_implementation = "scaled_in_a_test"
        return model

    transformers.AttentionInterface.register("scaled_in_a_test", scaled)
    try:
        assert_refused(sandbox_of(make), "used the parameter scale")
    finally:
        transformers.AttentionInterface._global_mapping.pop("scaled_in_a_test")


class Uncopyable(Net):
    """Neither deepcopy nor a copy attribute by attribute works: the live forward runs on cloned tensors."""

    def __new__(cls, *args: Any, ticket: str = "") -> Any:
        if not ticket:
            raise TypeError("no ticket, no object")
        return super().__new__(cls)

    def __init__(self, ticket: str) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(20), requires_grad=False)
        self.register_buffer("mean", torch.zeros(20))

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("not to be copied")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return super().forward((x - self.mean) * self.scale)


def test_tensors_that_are_swapped_in() -> None:
    assert changes(lambda: Uncopyable(ticket="yes")) is True


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fc1.weight", "used the parameter fc1.weight"),
        ("scale", "used the parameter scale"),
        ("mean", "changed its own mean but read the mean"),
    ],
)
def test_tensors_that_are_not_swapped_in(name: str, says: str, registry: Registry) -> None:
    class Leaking(Uncopyable):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + held("tensor").sum()

    def make() -> nn.Module:
        model = Leaking(ticket="yes")
        registry.held["tensor"] = model.get_parameter(name) if name != "mean" else model.mean
        return model

    sandbox = sandbox_of(make)
    assert isinstance(sandbox.model, FunctionalModel)
    assert_refused(sandbox, says)


def assert_refused(sandbox: Sandbox, says: str) -> None:
    before = fingerprint(sandbox.setup.model)
    with pytest.raises(CopyNotIsolated, match=says):
        sandbox.run(sandbox.batch())
    assert_same(before, sandbox)


def assert_same(before: Any, sandbox: Sandbox) -> None:
    changed = difference(before, fingerprint(sandbox.setup.model))
    assert not [line for line in changed if "generator" not in line and not line.startswith("environment")]


def test_a_compute_loss_that_reads_a_live_weight(registry: Registry) -> None:
    def make() -> nn.Module:
        model = Net()
        registry.held["weight"] = model.fc1.weight.detach()
        return model

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        features = torch.relu(batch[0] @ held("weight").t())
        loss: torch.Tensor = loss_fn(model.fc2(features), batch[1])
        return loss

    assert_refused(sandbox_of(make, compute_loss=compute_loss), "compute_loss on the copy did not use its own fc1")


def test_a_step_that_writes_to_the_memory_of_a_live_weight(registry: Registry) -> None:
    def make() -> nn.Module:
        model = Net()
        registry.held["weight"] = model.fc1.weight.detach()
        return model

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        held("weight").mul_(0.5)
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
        return loss

    sandbox = sandbox_of(make, train_step=step)
    before = fingerprint(sandbox.setup.model)
    with pytest.raises(CopyNotIsolated, match=r"train_step on the copy writes to fc1\.weight"):
        sandbox.step(sandbox.batch())
    assert_same(before, sandbox)


def test_asking_for_the_shape_of_a_live_weight_is_no_use(registry: Registry) -> None:
    def make() -> nn.Module:
        model = Net()
        registry.held["weight"] = model.fc1.weight
        return model

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        weight = held("weight")
        assert weight.numel() == weight.size(0) * weight.shape[1] and weight.is_floating_point()
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
        return loss

    sandbox = sandbox_of(make, compute_loss=compute_loss)
    sandbox.run(sandbox.batch())
    assert not any(sandbox.setup.isolation.values())
