"""The API reference says of every argument what it means, where there are more than three."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import nbdebug

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from api_page import arguments, public

FUNCTIONS = {name: thing for name, thing in public().items() if len(inspect.signature(thing).parameters) > 3}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_has_its_line(name: str) -> None:
    """Those of the signature, in its order, and no other."""
    said = [argument.lstrip("*") for argument in arguments(FUNCTIONS[name])]
    assert said == list(inspect.signature(FUNCTIONS[name]).parameters)


def test_every_public_function_is_on_the_page() -> None:
    functions = {name for name in nbdebug.__all__ if inspect.isfunction(getattr(nbdebug, name))}
    assert functions - set(public()) == {"load_ipython_extension", "unload_ipython_extension"}
