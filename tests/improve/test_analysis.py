"""Planted slices, confusions and wrong labels are found."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import nbdebug
from tests.improve.digits import loader_of, network, pixels, trained


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    x, y = pixels()
    return trained(network(), x[:900], y[:900])


def in_order(inputs: torch.Tensor, targets: torch.Tensor) -> torch.utils.data.DataLoader[tuple[torch.Tensor, ...]]:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), 64)


def test_a_planted_slice_is_found(model: torch.nn.Module) -> None:
    """Where the first corner is lit, the picture is upside down: nobody said so, and it is found."""
    x, y = pixels()
    x, y = x[900:].clone(), y[900:]
    marked = torch.zeros(len(x), dtype=torch.bool)
    marked[::4] = True
    x[marked] = x[marked].flip(1)
    x[marked, 0] = 5.0
    found = nbdebug.analyse_errors(model, in_order(x, y), progress=False).found
    assert found and "[:, 0] >" in found[0].name
    assert found[0].error > 0.3 and found[0].p_value < 1e-6


def test_no_slice_where_there_is_none(model: torch.nn.Module) -> None:
    x, y = pixels()
    random = pd.DataFrame({"group": ["a", "b", "c"] * 299})
    result = nbdebug.analyse_errors(model, in_order(x[900:], y[900:]), slices=random, progress=False)
    assert not [part for part in result.found if "group" in part.name]
    assert {part.name for part in result.slices} == {"group = a", "group = b", "group = c"}


def test_a_number_is_compared_whatever_its_name(model: torch.nn.Module) -> None:
    """A column of numbers whose name looks like a level of another one."""
    x, y = pixels()
    x, y = x[900:].clone(), y[900:]
    x[::4] = x[::4].flip(1)
    turned = pd.DataFrame({"turned = yes": [float(i % 4 == 0) for i in range(len(x))]})
    found = nbdebug.analyse_errors(model, in_order(x, y), slices=turned, progress=False).found
    assert found and found[0].name.startswith("turned = yes > 0.5")


def test_given_slices_by_column_and_function(model: torch.nn.Module) -> None:
    x, y = pixels()
    x, y = x[900:].clone(), y[900:]
    night = torch.arange(len(x)) % 3 == 0
    x[night] = 1 - x[night]
    slices = {"night": night.numpy(), "bright": lambda sample: bool(sample[0].mean() > 0.5)}
    result = nbdebug.analyse_errors(model, in_order(x, y), slices=slices, progress=False)
    errors = {part.name: part.error for part in result.slices}
    assert errors["night = True"] > 2 * errors["night = False"] and errors["bright = True"] > errors["bright = False"]


def test_planted_wrong_labels_are_suspected(model: torch.nn.Module) -> None:
    x, y = pixels()
    x, y = x[900:], y[900:].clone()
    planted = set(range(0, 600, 30))
    for index in planted:
        y[index] = (y[index] + 3) % 10
    suspects = nbdebug.analyse_errors(model, in_order(x, y), worst=20, progress=False).suspects
    assert suspects is not None
    listed = [row[0] for row in suspects.rows]
    assert len(planted & set(listed)) >= max(12, 0.7 * len(listed))  # of 20 that were planted


def test_confusion_and_worst(model: torch.nn.Module) -> None:
    x, y = pixels()
    names = [f"digit {i}" for i in range(10)]
    result = nbdebug.analyse_errors(model, in_order(x[900:], y[900:]), class_names=names, progress=False)
    assert result.confusion is not None and all(row[0].startswith("digit ") for row in result.confusion.rows)
    frame = result.to_frame()
    assert sum(row[2] for row in result.confusion.rows) == int(frame["error"].sum())
    assert [row[0] for row in result.worst.rows] == frame.nlargest(20, "hardness")["index"].tolist()
    assert "Errors by slice" in str(result)


def test_against_another_split(model: torch.nn.Module) -> None:
    x, y = pixels()
    result = nbdebug.analyse_errors(
        model, loader_of(1 - x[1300:], y[1300:]), against=loader_of(x[900:1300], y[900:1300])
    )
    last = result.types.rows[-1]
    assert float(last[2]) > 0.5 > float(last[4])


def test_slices_that_do_not_fit(model: torch.nn.Module) -> None:
    x, y = pixels()
    with pytest.raises(nbdebug.BadInput, match="one value per sample"):
        nbdebug.analyse_errors(model, in_order(x, y), slices={"short": [1, 2, 3]}, progress=False)
    batches = [(x[:64], y[:64])]
    with pytest.raises(nbdebug.BadInput, match="index its samples"):
        nbdebug.analyse_errors(model, batches, slices={"f": lambda sample: 1}, progress=False)


def test_the_same_slices_in_the_other_data(model: torch.nn.Module) -> None:
    """Pictures upside down are worse in both; the table of kinds has both errors, of a slice found and of one given."""
    x, y = pixels()
    parts = []
    for rows in (slice(900, 1400), slice(1400, 1797)):
        images, labels = x[rows].clone(), y[rows]
        images[::3] = images[::3].flip(1)
        images[::3, 0] = 5.0
        parts.append(in_order(images, labels))
    slices = {"lit": lambda sample: bool(sample[0][0] > 1)}
    result = nbdebug.analyse_errors(model, parts[0], against=parts[1], slices=slices, progress=False)
    beside = {row[0]: row[4] for row in result.types.rows}
    assert float(beside["lit = True"]) > 0.3 > float(beside["lit = False"])
    assert result.found and float(beside[result.found[0].name]) > 0.3


def test_the_worst_samples_in_the_batch_viewer(model: torch.nn.Module) -> None:
    x, y = pixels()
    result = nbdebug.analyse_errors(model, in_order(x[900:], y[900:]), progress=False)
    shown = result.show_worst(6).data["samples"]
    assert [sample["target"] for sample in shown] == [row[1] for row in result.worst.rows[:6]]
    assert [sample["predicted"] for sample in shown] == [row[2] for row in result.worst.rows[:6]]
    batches = nbdebug.analyse_errors(model, [(x[:64], y[:64])], progress=False)
    with pytest.raises(nbdebug.BadInput, match="index its samples"):
        batches.show_worst()
