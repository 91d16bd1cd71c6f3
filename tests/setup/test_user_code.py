"""Whose code is it: the user's, also where it lies beside the package under a name that begins like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.experiments.source_lines import is_users_file
from nbdebug.setup.user_code import is_users_function

PACKAGE = Path(nbdebug.__file__).parent


def function_in(file: Path) -> Any:
    """Return a function whose code lies in this file."""
    known: dict[str, Any] = {}
    exec(compile("def f(): pass", str(file), "exec"), known)
    return known["f"]


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        (PACKAGE / "twin" / "guard.py", False),
        (PACKAGE.with_name(f"{PACKAGE.name}_experiments") / "train.py", True),
        (PACKAGE.with_name(f"{PACKAGE.name}.py"), True),
        (PACKAGE.parent / "train.py", True),
    ],
    ids=["ours", "folder beside", "file beside", "folder above"],
)
def test_only_what_lies_in_the_package_is_ours(file: Path, is_users: bool) -> None:
    """A clone may be called like the package, and so may a folder of the user's, as far as it goes."""
    assert is_users_file(str(file)) == is_users
    assert is_users_function(function_in(file)) == is_users


def test_torch_is_a_library() -> None:
    """Neither its files nor its functions are the user's."""
    assert not is_users_file(torch.nn.__file__) and not is_users_function(torch.nn.functional.relu)
