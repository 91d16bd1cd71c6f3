"""The decision tree as data: symptoms, stages, the checks of each step, and the questions to the user.

for symptom in symptoms(): …                   the symptoms to choose from
for stage, step, why in order_for(symptom): …  every step, in the order for that symptom
next_step(results, answers, symptom)           what to do next, and why
"""

from nbdebug.engine.decision_tree.advising import Next, next_step
from nbdebug.engine.decision_tree.answering import Said, checked_answer, checked_answers, find_question, follow_of, said
from nbdebug.engine.decision_tree.improving import IMPROVEMENTS
from nbdebug.engine.decision_tree.parts import Follow, Lead, Question, Stage, Step, Symptom
from nbdebug.engine.decision_tree.stages import TREE
from nbdebug.engine.decision_tree.walking import (
    checks_for,
    find_symptom,
    order_for,
    questions,
    stages,
    step_of,
    symptoms,
    tree_order,
    whole_tree,
)

__all__ = [
    "IMPROVEMENTS",
    "TREE",
    "Follow",
    "Lead",
    "Next",
    "Question",
    "Said",
    "Stage",
    "Step",
    "Symptom",
    "checked_answer",
    "checked_answers",
    "checks_for",
    "find_question",
    "find_symptom",
    "follow_of",
    "next_step",
    "order_for",
    "questions",
    "said",
    "stages",
    "step_of",
    "symptoms",
    "tree_order",
    "whole_tree",
]
