"""One summary for tensors of every kind, none of which makes it fail."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from nbdebug.experiments.tensor_stats import facts_of, floats_of

KINDS = {
    "float32": torch.tensor([1.0, -2.0, 3.0]),
    "float64": torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64),
    "float16": torch.tensor([60000.0, 60000.0], dtype=torch.float16),
    "bfloat16": torch.tensor([1.0, -2.0], dtype=torch.bfloat16),
    "float8": torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn),
    "int64": torch.tensor([1, -2, 3]),
    "uint8": torch.tensor([1, 200], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "complex": torch.tensor([1 + 2j, -3j]),
    "conjugate": torch.tensor([1 + 2j, -3j]).conj(),
    "sparse": torch.eye(3).to_sparse(),
    "compressed sparse": torch.eye(3).to_sparse_csr(),
    "quantized": torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.1, 0, torch.quint8),
    "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": torch.nested.nested_tensor([torch.ones(2, 1), torch.ones(3, 1)], layout=torch.jagged),
    "meta": torch.zeros(3, device="meta"),
    "empty": torch.zeros(0, 4),
    "number": torch.tensor(3.0),
    "all NaN": torch.full((4,), math.nan),
    "all inf": torch.full((4,), -math.inf),
    "some NaN": torch.tensor([1.0, math.nan, math.inf]),
    "with a graph": torch.ones(3, requires_grad=True) * 2,
    "not contiguous": torch.arange(12.0).reshape(3, 4).T,
    "expanded": torch.ones(1).expand(5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_never_fails(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        facts = facts_of(KINDS[kind])
    assert facts.dtype and isinstance(facts.shape, tuple)
    assert facts.nan + facts.inf <= facts.count


def test_counts_and_statistics_of_the_rest() -> None:
    facts = facts_of(KINDS["some NaN"])
    assert (facts.count, facts.nan, facts.inf, facts.mean) == (3, 1, 1, 1.0)
    assert facts_of(KINDS["all NaN"]).nan == 4 and facts_of(KINDS["all inf"]).inf == 4


def test_half_precision_does_not_overflow() -> None:
    assert math.isclose(facts_of(KINDS["float16"]).norm, 60000 * math.sqrt(2), rel_tol=1e-3)


def test_leaves_the_tensor_alone() -> None:
    tensor = torch.tensor([1.0, -2.0], requires_grad=True)
    version = tensor._version
    assert not floats_of(tensor).requires_grad and tensor._version == version
