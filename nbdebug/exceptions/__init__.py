"""After an error: which module, which shapes met, and what would fit."""

from nbdebug.exceptions.explain import explain_error
from nbdebug.exceptions.explanation import ErrorExplanation

__all__ = ["ErrorExplanation", "explain_error"]
