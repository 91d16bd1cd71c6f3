"""Failing examples whose log determinant is not that of their flow."""

from __future__ import annotations

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, flow
from tests.examples import failing_example

CHECK = "log-determinant-wrong"


@failing_example("log-determinant-wrong", where="compute_loss")
def determinant_of_the_inverse() -> Program:
    """The log determinant is subtracted from the likelihood."""
    return flow(lambda density, log_determinant: -(density - log_determinant).mean())
    # fixed: return flow(lambda density, log_determinant: -(density + log_determinant).mean())


@failing_example("log-determinant-wrong", where="compute_loss")
def half_of_the_determinant() -> Program:
    """The log determinant is averaged over the dimensions instead of summed."""
    return flow(lambda density, log_determinant: -(density + log_determinant / 4).mean())


def test_a_right_one_is_silent() -> None:
    for weight in (1.0, 0.25):
        assert not alarms_of(lambda w=weight: flow(lambda p, d: -w * (p + d).mean()), CHECK)


def test_an_autoencoder_is_silent() -> None:
    """The difference of input and reconstruction is as large as the input, and is no code."""
    assert not alarms_of(lambda: flow(lambda p, d: -p.mean() + 0.1 * d.square().mean()), CHECK)


def test_a_likelihood_that_is_minimized_has_the_wrong_sign() -> None:
    assert alarms_of(lambda: flow(lambda p, d: (p + d).mean()), "loss-sign-flipped") == ["bug"]
