"""How a path is written in the code that a remedy shows."""

from __future__ import annotations

import pytest

from nbdebug.core.remedy import in_code


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("head", "model.head"),
        ("encoder.0.weight", "model.encoder[0].weight"),
        ("0", "model[0]"),
        ("model", "model"),
        ("", "model"),
        ("parts.my layer.2", "model.parts['my layer'][2]"),
    ],
)
def test_a_path_is_written_as_python_does(path: str, written: str) -> None:
    assert in_code(path) == written


def test_the_root_can_be_another() -> None:
    assert in_code("blocks.3", "self") == "self.blocks[3]"
