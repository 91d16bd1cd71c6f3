"""After an error: which module, which shapes met, and what would fit."""

from nbdebug.postmortem.explain import explain_error
from nbdebug.postmortem.explanation import ErrorExplanation

__all__ = ["ErrorExplanation", "explain_error"]
