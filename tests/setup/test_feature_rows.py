"""Rows of numbers know which input each column comes from."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.feature_rows import columns_of, joined


def test_columns_belong_to_their_input_whatever_it_is_called() -> None:
    """A key of the user's may look like what is made of another input."""
    inputs = {"size (cm)": torch.randn(4, 2), "size (kg)": torch.randn(4, 1), "words": torch.randint(0, 9, (4, 12))}

    class Net(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return batch["size (cm)"].sum(1)

    batch = Setup(Net(), [(inputs, torch.zeros(4))]).batches(1)[0]
    rows, columns, groups = joined([columns_of(batch)])
    own = [name for name in batch.inputs if "size" in name]
    assert [group for group in dict.fromkeys(groups) if "size" in group] == own
    assert len(groups) == len(columns) == rows.shape[1]
    assert {group for name, group in zip(columns, groups, strict=True) if "(counts)" in name} == {
        name for name in batch.inputs if "words" in name
    }
