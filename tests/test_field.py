"""Programs around public libraries: silent on the sound ones, and the faults of the others are named."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.core.registry import registry
from tests.field import Program, all_programs

ALWAYS = (
    "arcface_of_digits", "bert_classifies", "classes_of_graphs", "codes_of_digits", "generator_and_critic",
    "gpt2_next_token", "lora_adapters", "q_learning_from_replay", "torchdiffeq_spiral", "zuko_posterior",
)  # fmt: skip
# No check tells these yet: a density has no target to compare with, packed graphs are not exchanged, and a sum of two
# losses of one prediction belongs to no family.
STILL_MISSED = (
    ("bert_classifies", "mask_forgotten"),
    ("classes_of_graphs", "graphs_pooled_together"),
    ("gpytorch_regression", "likelihood_brought_down"),
    ("llama_padded_and_tied", "pads_are_predicted"),
    ("q_learning_from_replay", "average_reversed"),
    ("roberta_fills_masks", "visible_tokens_count"),
    ("smp_one_class", "two_sigmoids"),
    ("zuko_spline_flow", "likelihood_brought_down"),
)


def made(program: Program, fault: str = "") -> dict[str, Any]:
    """Make a program from its own seed, or say why it cannot be made here."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    for library in program.needs:
        try:
            importlib.import_module(library)
        except Exception as error:  # torchvision beside a torch of another kind raises RuntimeError
            pytest.skip(f"{library} cannot be imported: {error}")
    torch.manual_seed(0)
    return program.make(fault) if fault else program.make()


def quiet(setup: dict[str, Any], **options: Any) -> nbdebug.Report:
    """Diagnose a program without a bar."""
    return nbdebug.diagnose(**setup, progress=False, **options)


def slow_unless(is_always: bool) -> list[pytest.MarkDecorator]:
    """Return the mark of what only `make test-slow` runs."""
    return [] if is_always else [pytest.mark.slow]


SOUND = [pytest.param(p, id=p.name, marks=slow_unless(p.name in ALWAYS)) for p in all_programs()]
FAULTY = [
    pytest.param(
        p,
        fault,
        id=f"{p.name}-{fault}",
        marks=slow_unless(p.name in ALWAYS)
        + [pytest.mark.xfail(reason="no check tells it yet", strict=False)] * ((p.name, fault) in STILL_MISSED),
    )
    for p in all_programs()
    for fault in p.faults
]


def test_names_checks_that_exist() -> None:
    """What would tell the author is the id of a check."""
    known = set(registry.load().checks)
    assert all(set(accepted) <= known for p in all_programs() for accepted in p.faults.values())


@pytest.mark.parametrize("program", SOUND)
def test_silent_on_a_sound_program(program: Program) -> None:
    """What trains nothing raises no alarm, and no check crashes."""
    report = quiet(made(program), effort="quick")
    assert not report.alarms, [str(f) for f in report.alarms]
    assert not [str(result) for result in report.results if result.status == "crashed"]


@pytest.mark.slow
@pytest.mark.parametrize("program", SOUND)
def test_silent_on_a_sound_program_in_training(program: Program) -> None:
    """Nor does what trains."""
    report = quiet(made(program), effort="thorough")
    assert not report.alarms, [str(f) for f in report.alarms]
    assert not [str(result) for result in report.results if result.status == "crashed"]


@pytest.mark.parametrize(("program", "fault"), FAULTY)
def test_names_the_fault(program: Program, fault: str) -> None:
    """One of the checks that would help its author raises an alarm."""
    report = quiet(made(program, fault), checks=list(program.faults[fault]))
    assert report.alarms, [(result.check, result.status, result.reason) for result in report.results]
