"""The tree's data hang together: every name leads somewhere, and every check is reached from every symptom."""

from __future__ import annotations

from dataclasses import replace

import pytest

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import (
    TREE,
    Question,
    Step,
    Symptom,
    find_symptom,
    order_for,
    questions,
    stages,
    symptoms,
    walking,
    whole_tree,
)
from nbdebug.engine.decision_tree.questions import QUESTIONS
from nbdebug.engine.decision_tree.symptoms import AFTER_MEMORISING

STEPS = {step.id: step for stage in TREE for step in stage.steps}
CHECKS = set(registry.load("nbdebug.checks").checks)


def test_ids_are_used_once() -> None:
    """An id names one thing, and stage ids and step ids are told apart by the wizard's tree alone."""
    ids = [*(stage.id for stage in TREE), *(step.id for stage in TREE for step in stage.steps)]
    assert len(ids) == len(set(ids))
    assert len({q.id for q in QUESTIONS}) == len(QUESTIONS)
    assert len({s.id for s in symptoms()}) == len(symptoms())


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda s: s.id)
def test_a_symptom_leads_somewhere(symptom: Symptom) -> None:
    """Its steps, questions and checks exist, none of them twice."""
    assert set(symptom.steps) <= set(STEPS) and len(set(symptom.steps)) == len(symptom.steps)
    assert {q.id for q in questions(symptom.id)} == set(symptom.questions)
    assert set(symptom.answered_by) <= CHECKS
    assert symptom.about.endswith(".") and all(lead.why.endswith(".") for lead in symptom.leads)
    led_to = {check for name in symptom.steps for check in STEPS[name].checks}
    assert set(symptom.answered_by) <= led_to  # what answers the complaint is looked at early


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda s: s.id)
def test_every_check_is_reached_from_every_symptom(symptom: Symptom) -> None:
    """The order differs, the set does not; and what the symptom names comes first."""
    walked = order_for(symptom.id)
    assert sorted(c for _, step, _ in walked for c in step.checks) == sorted(
        c for stage in stages(registry) for c in stage.checks
    )
    runnable = [name for name in symptom.steps if STEPS[name].checks]
    assert [step.id for _, step, _ in walked if step.checks][: len(runnable)] == runnable
    assert all(why for _, _, why in walked)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)
def test_a_question_leads_somewhere(question: Question) -> None:
    """Where it is asked, what helps to answer it and where each answer leads exist; every answer can be given."""
    assert question.after in STEPS and question.words.endswith("?")
    assert question.why.endswith(".")
    assert (question.kind == "choice") == bool(question.choices)
    allowed = question.answers or ("any",)
    assert question.follows
    for follow in question.follows:
        assert follow.answer in allowed
        assert follow.advice.endswith(".") and set(follow.steps) <= set(STEPS)


def test_the_lecture_s_four_curves_lead_somewhere() -> None:
    """Rises, explodes, oscillates, plateaus: the outcomes of the experiment are those of the tree."""
    from nbdebug.checks.optimization.cannot_overfit_batch import CAUSES

    assert set(AFTER_MEMORISING) == set(CAUSES)
    assert all(set(lead.steps) <= set(STEPS) for lead in AFTER_MEMORISING.values())


def test_what_is_not_there_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that this version lacks is named by no step and no question; one that it has is."""
    named = {name for stage in whole_tree(registry) for step in stage.steps for name in step.instruments}
    assert named <= set(nbdebug.__all__)
    assert {name for q in questions() for name in q.look} <= set(nbdebug.__all__) | CHECKS
    step = Step("x", "X", "?", ".", instruments=("wizard", "levitate"))
    assert walking.on_offer(step) == replace(step, instruments=("wizard",))
    monkeypatch.setattr(nbdebug, "__all__", [*nbdebug.__all__, "levitate"])
    assert walking.on_offer(step) == step


def test_a_stage_without_checks_does_not_run_by_itself() -> None:
    """`diagnose` and the wizard run what has checks."""
    assert all(step.checks for stage in stages(registry) for step in stage.steps)
    assert {stage.id for stage in whole_tree(registry)} >= {"begin", "data", "run", "start", "learn"}


@pytest.mark.parametrize("name", ["loss is NaN", "The loss is NaN", "loss-is-nan", "LOSS IS NAN."])
def test_a_symptom_is_found_by_its_words(name: str) -> None:
    """People do not know ids."""
    assert find_symptom(name).id == "loss-is-nan"


@pytest.mark.parametrize("name", ["it is sad", "", None, 3, ["loss is NaN"]])
def test_another_symptom_is_refused_with_the_list(name: object) -> None:
    """The message says which there are."""
    with pytest.raises(nbdebug.BadInput, match="The loss does not fall"):
        find_symptom(name)
