"""Slipped digits in the optimizer's settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("unusual-optimizer", where="optimizer.param_groups[0]")
def second_beta_with_a_slip() -> dict[str, Any]:
    """The second beta was meant to be 0.999."""
    return loops.setup(None, 1e-3, torch.optim.Adam, betas=(0.9, 0.0999))


@failing_example("unusual-optimizer", where="optimizer.param_groups[0]")
def eps_with_the_sign_lost() -> dict[str, Any]:
    """The exponent of eps lost its sign."""
    return loops.setup(None, 1e-3, torch.optim.RMSprop, eps=1e8)
    # fixed: return loops.setup(None, 1e-3, torch.optim.RMSprop, eps=1e-8)


@failing_example("unusual-optimizer", where="optimizer.param_groups[0]")
def learning_rate_of_zero() -> dict[str, Any]:
    """No step changes anything."""
    return loops.setup(None, 0.0)  # fixed: return loops.setup(None, 1e-3)


def with_rates(*rates: float, step: Any = None) -> dict[str, Any]:
    """Return a set-up whose layers are in groups of their own with these learning rates."""
    made = loops.setup(step, 1e-3, torch.optim.SGD)
    layers = [made["model"][0], made["model"][2:]]
    groups = [{"params": list(layer.parameters())} for layer in layers] if len(rates) > 1 else None
    optimizer = made["optimizer"] = torch.optim.SGD(groups or made["model"].parameters(), lr=1e-3)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate  # which torch takes, unlike a negative one in the constructor
    return made


def told(setup: dict[str, Any], **options: Any) -> list[tuple[str, str]]:
    """Return where the check finds something, and how sure it is."""
    report = nbdebug.diagnose(**setup, **options, checks=["unusual-optimizer"], progress=False)
    assert report.results[0].status in ("found", "clean"), report.results[0]
    return [(finding.where, finding.severity) for finding in report.findings]


def sets_the_rate(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Set the learning rate by hand, as a warm-up without a scheduler does."""
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    return loops.right(model, batch, loss_fn, optimizer)


@pytest.mark.parametrize("quick", [False, True])
def test_learning_rates_of_nothing_or_less(quick: bool) -> None:
    """All groups are a bug, one among others may be frozen on purpose, and one that climbs is suspect."""
    first, both = "optimizer.param_groups[0]", "optimizer"
    assert told(with_rates(0.0), quick=quick) == [(first, "bug")]
    assert told(with_rates(-0.1), quick=quick) == [(first, "bug")]
    assert told(with_rates(0.0, 0.0), quick=quick) == [(both, "bug")]
    assert told(with_rates(0.0, 0.1), quick=quick) == [(first, "note")]
    assert told(with_rates(-0.1, 0.1), quick=quick) == [(first, "suspect")]
    assert told(with_rates(0.0, step=loops.right), quick=quick) == [(first, "bug")]
    made = with_rates(0.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(made["optimizer"])
    assert told({**made, "scheduler": plateau}, quick=quick) == [(first, "bug")]


@pytest.mark.parametrize("passed", [True, False])
def test_a_warm_up_from_zero_is_clean(passed: bool) -> None:
    """Whether the scheduler is passed, or only noted in the groups."""
    made = loops.setup(None, 1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(made["optimizer"], lambda step: min(step / 100, 1.0))
    assert made["optimizer"].param_groups[0]["lr"] == 0
    assert not told({**made, "scheduler": scheduler} if passed else made)


def test_other_reasons_for_a_rate_of_zero_are_clean() -> None:
    """The step sets it, nothing in the group is trained, or maximize turns the sign round."""
    assert not told(with_rates(0.0, step=sets_the_rate))
    frozen = with_rates(0.0, 0.1)
    frozen["model"][0].requires_grad_(False)
    assert not told(frozen)
    turned = with_rates(-0.1)
    turned["optimizer"].param_groups[0]["maximize"] = True
    assert not told(turned)


def test_a_rate_of_zero_comes_before_what_follows_from_it() -> None:
    """It explains why nothing is learned, and the remedy is verified."""
    report = nbdebug.diagnose(**with_rates(0.0), progress=False)
    assert [finding.check for finding in report.alarms][:1] == ["unusual-optimizer"]
    assert "cannot-overfit-batch" in report.alarms[0].explains
    assert report.alarms[0].verify(progress=False).verified


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (torch.optim.Adam, {"betas": (0.5, 0.999)}),
        (torch.optim.AdamW, {"betas": (0.9, 0.95), "weight_decay": 0.1}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.RMSprop, {"alpha": 0.9, "eps": 1e-3}),
    ],
)
def test_published_recipes_are_clean(make: Any, options: dict[str, Any]) -> None:
    """Settings that papers used are not unusual."""
    report = nbdebug.diagnose(**loops.setup(None, 1e-3, make, **options), checks=["unusual-optimizer"], progress=False)
    assert report.results[0].status == "clean"
