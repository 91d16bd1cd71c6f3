"""What each prediction sees of the sequence that its target is taken from, and programs that no check may alarm on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.engine.session import Session
from nbdebug.errors import NotApplicable
from nbdebug.evidence import PositionInfluence
from nbdebug.setup import Setup
from tests.checks.position_programs import SOUND

CHECKS = (
    "causal-leak", "unshifted-targets", "inverted-attention-mask", "attention-over-wrong-dim", "unscaled-attention",
)  # fmt: skip
LARGE = ("llama", "t5", "padded-bert", "padded-t5", "padded-gpt2", "gpt2", "gpt2-eager")


def influence(setup: dict[str, Any]) -> PositionInfluence:
    torch.manual_seed(0)
    found: PositionInfluence = Session(Setup(**setup)).measure(PositionInfluence)
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE[1:])) for name in SOUND])
def test_silent_on_sound_programs(name: str) -> None:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**SOUND[name](), checks=CHECKS, progress=False)
    assert not report.alarms, [str(finding) for finding in report.alarms]
    assert not [result for result in report.results if result.status == "crashed"]


@pytest.mark.parametrize("name", ["next-tokens", "loss-that-shifts", "step", "gpt2", "prefix", "tiny-gpt"])
def test_a_causal_model_sees_what_lies_before_its_target(name: str) -> None:
    found = influence(SOUND[name]())
    (stream,) = found.streams
    assert (stream.ahead, stream.agreement) == (1, 1.0) and stream.is_next_step and stream.is_shifted
    assert stream.target == stream.later == 0 and stream.earlier > 0.1
    assert found.runs <= 7 and found.mode == "eval"


def test_labels_that_a_decoder_gets_later_are_shifted() -> None:
    (stream,) = influence(SOUND["copying"]()).streams
    assert stream.name == "given" and stream.offset == 1 and stream.is_shifted


def test_an_autoencoder_sees_its_target_and_what_lies_behind() -> None:
    (stream,) = influence(SOUND["autoencoder-of-tokens"]()).streams
    assert stream.offset == 0 and not stream.is_next_step
    assert min(stream.target, stream.later, stream.earlier) > 0.01


def test_outputs_that_depend_on_the_columns_before_are_shifted() -> None:
    (stream,) = influence(SOUND["densities"]()).streams
    assert stream.offset == 0 and stream.target == 0 and stream.is_shifted


@pytest.mark.parametrize("name", ["tags", "masked-words", "first-word-recalled", "mha", "forecast"])
def test_targets_that_are_no_inputs_are_left_alone(name: str) -> None:
    if name == "first-word-recalled":
        assert influence(SOUND[name]()).streams[0].is_tokens
        return
    with pytest.raises(NotApplicable, match="are not values of a sequence"):
        influence(SOUND[name]())
