"""After an error: which module, which shapes met, and what would fit."""

from nbdebug.engine.explain_error.explain import explain_error
from nbdebug.engine.explain_error.explanation import ErrorExplanation

__all__ = ["ErrorExplanation", "explain_error"]
