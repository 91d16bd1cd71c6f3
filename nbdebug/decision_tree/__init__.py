"""The decision tree as data: stages, the questions they ask, and the checks that answer each question."""

from nbdebug.decision_tree.parts import Stage, Step
from nbdebug.decision_tree.stages import TREE
from nbdebug.decision_tree.walking import stages, step_of

__all__ = ["TREE", "Stage", "Step", "stages", "step_of"]
