"""The generator of mutants works, and what it makes is found; the whole of it is in `benchmarks/faults.py`."""

from __future__ import annotations

import pytest

import nbdebug
from nbdebug.core.registry import registry
from tests.examples import all_healthy
from tests.mutants import Mutant, all_faults, all_mutants

QUICK = (
    "nan_in_one_sample@tiny_iris",
    "softmax_by_hand@layer_norm_first",
    "view_instead_of_transpose@noisy_regression_on_diabetes",
    "optimizer_of_another_model@one_huge_batch",
    "zero_grad_forgotten@samples_one_by_one",
)


def named(name: str) -> Mutant:
    """Return the mutant of this name."""
    kind, host = name.split("@")
    return Mutant(
        next(fault for fault in all_faults() if fault.kind == kind),
        next(healthy for healthy in all_healthy() if healthy.name == host),
    )


def test_there_are_many_faults() -> None:
    """Forty-five kinds are the least; each names checks that exist."""
    assert len(all_faults()) >= 45
    known = registry.load().checks
    for fault in all_faults():
        assert fault.accepted and all(check in known for check in fault.accepted), fault.kind


def test_every_fault_fits_somewhere() -> None:
    """A fault that fits no set-up would never be measured."""
    assert {mutant.fault.kind for mutant in all_mutants(each=1)} == {fault.kind for fault in all_faults()}


@pytest.mark.parametrize("name", QUICK)
def test_root_cause_comes_first(name: str) -> None:
    """A few mutants in every test run."""
    _found_first(named(name))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [fault.kind for fault in all_faults()])
def test_one_of_each_kind_is_found(kind: str) -> None:
    """One mutant of every kind of fault, found by a check that names its root cause."""
    mutant = next(all_mutants(each=1, only=f"mutant:{kind}@"))
    setup, _ = mutant.make()
    report = nbdebug.diagnose(**setup, progress=False)
    assert any(finding.check in mutant.fault.accepted for finding in report.alarms), [str(f) for f in report.alarms]


def _found_first(mutant: Mutant) -> None:
    setup, places = mutant.make()
    first = nbdebug.diagnose(**setup, progress=False).findings[0]
    assert first.check in mutant.fault.accepted, str(first)
    assert places is None or any(first.where == p or first.where.startswith(f"{p}.") for p in places), str(first)
