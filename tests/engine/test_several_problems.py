"""Where no single exchange rescues a training, the smallest set that does is named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

import nbdebug
from nbdebug.core.remedy import Patch
from nbdebug.engine.differential.exchange import REPAIR, Exchange, one
from nbdebug.engine.differential.race import Run
from nbdebug.engine.differential.textbook import smallest, together
from tests.unseen.fifth_slow import far_away_and_far_too_slow


def part(name: str, check: str = "") -> Exchange:
    """Return an exchange with a patch of the same name."""
    return one(name, check, f"The {name} is wrong", name, (f"Change the {name}.", "pass", Patch(name)))


HEAD, INPUTS, HIDDEN = (
    part("head", "clamped-output"),
    part("inputs", "unnormalized-inputs"),
    part("hidden", "dead-units"),
)
ADAM = part("textbook-optimizer", REPAIR)


def named(needed: set[str], chosen: Sequence[Exchange]) -> Run | None:
    """Return what is named where exactly these exchanges are needed together."""

    def trained(parts: Sequence[Exchange]) -> Run:
        is_rescued = needed <= {part.name for part in parts}
        return Run(together(parts), skill=0.9 if is_rescued else 0.0, steps=240)

    return smallest(list(chosen), trained(chosen), 0.0, trained)


def test_what_is_not_needed_is_left_out() -> None:
    found = named({"head", "inputs"}, [HEAD, INPUTS, HIDDEN, ADAM])
    assert found is not None and found.exchange.name == "head and inputs"
    assert (found.exchange.check, found.exchange.also) == ("clamped-output", "unnormalized-inputs")
    assert [patch.name for patch in found.exchange.patches] == ["head", "inputs"]
    assert found.exchange.cause == "Several problems at once: the head is wrong; the inputs is wrong"


def test_an_optimizer_beside_a_cause_is_the_step_size() -> None:
    found = named({"inputs", "textbook-optimizer"}, [HEAD, INPUTS, HIDDEN, ADAM])
    assert found is not None and found.exchange.check == "unnormalized-inputs" and not found.exchange.also
    assert found.exchange.cause.endswith("the step size does not fit")


def test_one_alone_and_too_many_name_nothing() -> None:
    """One alone was tried before, and did not rescue the training from both starts."""
    assert named({"head"}, [HEAD, INPUTS]) is None
    assert named({"head", "inputs", "hidden", "textbook-optimizer"}, [HEAD, INPUTS, HIDDEN, ADAM]) is None


@pytest.mark.slow
def test_inputs_far_away_under_a_tiny_rate_are_both_needed() -> None:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**far_away_and_far_too_slow(), effort="thorough", progress=False)
    first = report.findings[0]
    assert (first.check, first.severity) == ("unnormalized-inputs", "bug")
    assert first.verifications[0].verified and len([r for r in first.remedies if r.patch]) > 1
