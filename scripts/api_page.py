"""The API reference: every public function with its signature, its docstring, and its arguments as a table."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import nbdebug

__all__ = ["api_page", "arguments", "public"]

ABOUT = """\
# API reference

The public names of `nbdebug`, from their docstrings, by `make docs`. [Use it](use.md) says what they are for.
"""
GROUPS = {
    "Diagnose": ("diagnose", "Options", "wizard", "verify", "explain", "explain_error", "list_checks", "tree", "load"),
    "Look and watch": (
        "show_batch",
        "show_activations",
        "show_gradients",
        "show_layers",
        "show_live",
        "watch",
        "follow_predictions",
        "tap",
    ),
    "Compare": ("bisect", "diff_setups"),
    "Improve": ("decompose", "analyse_errors", "compare", "starter", "k_fold", "tune"),
    "Extend": ("check", "probe"),
}


def api_page() -> str:
    """Return the page, a section for each group of names."""
    parts = [ABOUT]
    for title, names in GROUPS.items():
        parts += [f"## {title}\n", *(_section(name) for name in names)]
    return "\n".join(parts)


def public() -> dict[str, Any]:
    """Return the functions of the page by their names."""
    return {name: getattr(nbdebug, name) for names in GROUPS.values() for name in names}


def arguments(thing: Any) -> dict[str, str]:
    """Return what the `Args:` section of a docstring says of each argument."""
    block = _split(thing)[1]
    found = re.findall(r"^(\*{0,2}\w+): (.*(?:\n    .*)*)", block, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _split(thing: Any) -> tuple[str, str]:
    """Return a docstring without its `Args:` section, and that section."""
    text = inspect.getdoc(inspect.unwrap(thing)) or ""
    head, _, rest = text.partition("\nArgs:\n")
    return head.strip(), textwrap.dedent(rest)


def _section(name: str) -> str:
    thing = getattr(nbdebug, name)
    said = arguments(thing)
    parts = [f"### {name}\n", f"```text\n{_signature(name, thing)}\n```\n", _split(thing)[0], ""]
    if said:
        rows = [f"| `{arg}` | {_default(thing, arg)} | {text} |" for arg, text in said.items()]
        parts += ["| argument | default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def _signature(name: str, thing: Any) -> str:
    """Return the call without annotations; one argument a line where they do not fit on one."""
    plain = [p.replace(annotation=p.empty) for p in inspect.signature(thing).parameters.values()]
    said = str(inspect.Signature(plain))[1:-1]
    line = f"nbdebug.{name}({said})"
    if len(line) <= 100:
        return line
    wrapped = textwrap.wrap(said, 92, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"nbdebug.{name}(", *(f"    {part}" for part in wrapped), ")"])


def _default(thing: Any, name: str) -> str:
    parameter = inspect.signature(thing).parameters.get(name.lstrip("*"))
    if parameter is None or parameter.default is parameter.empty:
        return "" if name.startswith("*") else "required"
    return f"`{parameter.default!r}`"
