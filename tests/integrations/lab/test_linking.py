"""Findings lead to the line or to the variable that they are about."""

from __future__ import annotations

import pytest

from nbdebug.core.finding import Finding, Place
from nbdebug.integrations.lab.linking import link_of, linked
from nbdebug.report import Report

NAMES = {"model": "net", "loader": "data", "loss_fn": "criterion", "optimizer": "adam"}


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("batch[0][:, 3]", "data"),
        ("loader.dataset[3]", "data"),
        ("sample 12", "data"),
        ("loss_fn", "criterion"),
        ("optimizer.param_groups[0]", "adam"),
        ("batchnorm.weight", "net"),
        ("loss_head", "net"),
        ("labeler.0", "net"),
        ("optimal", "net"),
        ("", "net"),
    ],
)
def test_the_variable_that_a_place_belongs_to(where: str, name: str) -> None:
    """Names of layers that begin like another argument are layers all the same."""
    (link,) = linked(Report([Finding("x", where)], []), NAMES)
    assert link["name"] == name


def test_a_layer_called_batch_belongs_to_the_model() -> None:
    """Its line is known."""
    report = Report([Finding("x", "batch")], [], places={"batch": Place("cell [3]", 2, "", True, 3)})
    (link,) = linked(report, NAMES)
    assert link["name"] == "net" and link["cell"] == 3 and link["file"] == ""


def test_a_file_may_be_called_like_a_cell() -> None:
    """Only what was made in a notebook leads to a cell."""
    assert link_of(Place("cell [3]", 2), "net")["file"] == "cell [3]"
    assert link_of(Place("a cell of the notebook", 2, in_notebook=True), "net")["file"] == ""
