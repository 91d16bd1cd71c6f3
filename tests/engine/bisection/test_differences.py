"""The table of what differs: every ingredient by its name, nothing that is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler, default_collate

import nbdebug
from nbdebug.engine.bisection.differences import Differences
from nbdebug.errors import BadInput
from tests.engine.bisection.pairs import digits
from tests.trust.fingerprint import difference, fingerprint
from tests.zoo.samples import digit_rows


def names(good: Any, bad: Any) -> list[str]:
    """Return what differs, without what is only another random draw."""
    return [row.name for row in nbdebug.diff_setups(good, bad).rows]


def plain(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def clipped(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def rolled(samples: list[Any]) -> Any:
    x, y = default_collate(samples)
    return x, y.roll(1)


class Shown(Dataset[Any]):
    """Digits with a transform."""

    def __init__(self, transform: Any) -> None:
        self.rows, self.labels = digit_rows()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.rows[index]), self.labels[index]


def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def with_loader(**options: Any) -> dict[str, Any]:
    return digits() | {"loader": DataLoader(TensorDataset(*digit_rows()), 32, **options)}


def with_transform(transform: Any) -> dict[str, Any]:
    return digits() | {"loader": DataLoader(Shown(transform), 32)}


def scheduled(gamma: float) -> dict[str, Any]:
    made = digits()
    return made | {"scheduler": torch.optim.lr_scheduler.ExponentialLR(made["optimizer"], gamma)}


def frozen() -> dict[str, Any]:
    made = digits()
    made["model"][0].weight.requires_grad_(False)
    return made


def evaluated() -> dict[str, Any]:
    made = digits()
    made["model"].eval()
    return made


WEIGHTS = WeightedRandomSampler(torch.ones(1797).tolist(), 1797)
CASES: dict[str, tuple[Any, Any, list[str]]] = {
    "nothing": (digits(), digits(), []),
    "seed": (digits(), digits(seed=1), ["initial weights"]),
    "dataset": (digits(), digits(scale=2.0), ["dataset"]),
    "transform": (with_transform(halved), with_transform(doubled), ["transform"]),
    "sampler": (digits(), digits(shuffle=False), ["sampler"]),
    "weighted sampler": (with_loader(), with_loader(sampler=WEIGHTS), ["sampler"]),
    "batch size": (digits(), digits(batch=16), ["batch size"]),
    "collate": (with_loader(), with_loader(collate_fn=rolled), ["collate"]),
    "workers": (with_loader(), with_loader(pin_memory=True), ["pin_memory"]),
    "list of batches": (digits() | {"loader": [digit_rows()]}, digits(), ["loader"]),
    "activation": (digits(), digits(act=nn.Tanh()), ["architecture"]),
    "dropout": (digits(), digits(dropout=0.5), ["dropout"]),
    "mode": (digits(), evaluated(), ["train/eval mode"]),
    "loss": (digits(), digits(loss_fn=nn.CrossEntropyLoss(label_smoothing=0.2)), ["loss function"]),
    "compute_loss": (digits(), digits(compute_loss=lambda m, b, f: f(m(b[0]), b[1])), ["compute_loss"]),
    "train_step": (digits(train_step=plain), digits(train_step=clipped), ["train_step"]),
    "the same step": (digits(train_step=plain), digits(train_step=plain), []),
    "rate": (digits(), digits(lr=1e-5), ["learning rate"]),
    "decay": (digits(), digits(decay=0.1), ["weight decay"]),
    "optimizer": (digits(), digits(make=torch.optim.RMSprop), ["optimizer"]),
    "frozen": (digits(), frozen(), ["trained parameters"]),
    "scheduler": (scheduled(0.9), scheduled(0.1), ["scheduler"]),
    "no scheduler": (digits(), scheduled(0.9), ["scheduler"]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_ingredient_is_told(name: str) -> None:
    good, bad, expected = CASES[name]
    assert names(good, bad) == expected


def test_a_step_that_names_the_model_differs_by_its_code_only() -> None:
    """The two globals are the two models, which are compared by themselves."""

    def made() -> dict[str, Any]:
        given = digits()
        model = given["model"]
        return given | {"train_step": lambda _, batch, loss_fn, optimizer: loss_fn(model(batch[0]), batch[1])}

    assert names(made, made) == []


def test_other_widths_say_which_weights_cross() -> None:
    rows = {row.name: row for row in nbdebug.diff_setups(digits(), digits(width=16, seed=1)).rows}
    assert rows["initial weights"].note == "1 of 4 tensors have the same name and shape"
    assert "out_features=16" in rows["architecture"].bad and "out_features=32" in rows["architecture"].good


def test_switches_and_seeds_of_functions_are_told_and_put_back() -> None:
    def precise() -> dict[str, Any]:
        torch.set_float32_matmul_precision("highest")
        return digits(seed=1)

    def fast() -> dict[str, Any]:
        torch.set_float32_matmul_precision("medium")
        return digits(seed=2)

    before = torch.get_float32_matmul_precision(), torch.get_rng_state()
    rows = {row.name: row for row in nbdebug.diff_setups(precise, fast).rows}
    assert "medium" in rows["global switches"].bad and rows["seed"].kept
    assert torch.get_float32_matmul_precision() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def test_the_table_in_every_form() -> None:
    found = nbdebug.diff_setups(with_transform(halved), with_transform(doubled) | {"train_step": plain})
    frame = found.to_frame()
    assert list(frame["ingredient"]) == ["transform", "train_step"]
    assert "test_differences.py, line" in frame["bad_line"][1]
    assert Differences.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert "halved" in str(found) and "<table>" in found._repr_html_()
    assert "x / 2" in found.rows[0].good_source and "x * 2" in found.rows[0].bad_source


def test_objects_and_names_are_taken_as_well() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.__dict__.update(digits())

    assert names(Trainer(), digits) == []
    assert names("tests.engine.bisection.pairs:digits", digits()) == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7, "good: it is a int"),
        ({"model": nn.Linear(1, 1)}, "it has no loader"),
        (digits() | {"lodaer": 1}, "'lodaer' is no argument"),
        (digits() | {"optimizer": torch.optim.Adam}, "good['optimizer']: it is the class Adam"),
        (lambda: 1 / 0, "the function raised ZeroDivisionError"),
        ("nowhere", "it has no colon"),
    ],
)
def test_bad_input_is_refused(value: Any, says: str) -> None:
    with pytest.raises(BadInput) as error:
        nbdebug.diff_setups(value, digits())
    assert says in str(error.value) and "What to do" in str(error.value)


def test_nothing_of_the_users_is_touched() -> None:
    good, bad = with_transform(halved), digits(seed=3, train_step=plain)
    before = fingerprint(good, bad)
    nbdebug.diff_setups(good, bad)
    assert difference(before, fingerprint(good, bad)) == []
