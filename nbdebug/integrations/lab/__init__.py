"""What the JupyterLab extension asks of the kernel; nothing here is needed without it.

The extension evaluates `nbdebug.integrations.lab.answer(question, details)` beside the user's code: no cell runs, no
variable is made, and the answer is JSON.
"""

from nbdebug.integrations.lab.answering import answer

__all__ = ["answer"]
