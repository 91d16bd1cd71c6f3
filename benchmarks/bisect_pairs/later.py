"""Six pairs that were written when the search was finished, and run once."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate

from benchmarks.bisect_pairs import loops, pair, tables, texts, vision


def weighted(**options: Any) -> dict[str, Any]:
    """Classify tumors with two outputs, where `weight` is that of the second class."""
    weight = options.pop("weight", 1.0)
    made = tables.tumours(**options)
    rows, labels = made["loader"].dataset.tensors
    head = nn.Linear(32, 2)
    made["model"][2] = head
    optimizer = made["optimizer"]
    optimizer.param_groups[0]["params"][2:] = list(head.parameters())
    data = torch.utils.data.TensorDataset(rows, labels.reshape(-1).long())
    loader = DataLoader(data, made["loader"].batch_size, shuffle=True)
    return made | {"loader": loader, "loss_fn": nn.CrossEntropyLoss(torch.tensor([1.0, weight]))}


def blurred(**options: Any) -> dict[str, Any]:
    """Segment with dropout of whole channels before the last layer."""
    drop = options.pop("drop", 0.0)
    made = vision.segmentation(**options)
    made["model"][3] = nn.Sequential(nn.ReLU(), nn.Dropout2d(drop))
    return made


def labels_rolled(samples: list[Any]) -> Any:
    """Give every text the label of another one."""
    batch = default_collate(samples)
    return batch | {"labels": batch["labels"].roll(1)}


def collated(**options: Any) -> dict[str, Any]:
    """Classify texts with BERT and a collate of its own."""
    collate = options.pop("collate", None)
    made = texts.bert(**options)
    loader = made["loader"]
    return made | {"loader": DataLoader(loader.dataset, loader.batch_size, shuffle=True, collate_fn=collate)}


def bounded(**options: Any) -> dict[str, Any]:
    """Generate points with a last layer that may be bounded."""
    last = options.pop("last", None)
    made = loops.points(**options)
    made["model"].generator.append(last or nn.Identity())
    return made


def zeroed(**options: Any) -> dict[str, Any]:
    """Classify digits, with all weights zero where asked."""
    zero = options.pop("zero", False)
    made = vision.images(**options)
    if zero:
        with torch.no_grad():
            for parameter in made["model"].parameters():
                parameter.zero_()
    return made


pair("table, class weights", "tabular", weighted, "loss function", held_out=True, weight=1e-5, **tables.HARMLESS)
pair("segmentation, dropout", "segmentation", blurred, "dropout", held_out=True, drop=0.98, **vision.MASKS_HARMLESS)
pair("BERT, collate", "Hugging Face", collated, "collate", held_out=True, collate=labels_rolled, **texts.BERT_HARMLESS)
pair("own loop, rate too high", "own loop", loops.loop, "learning rate", held_out=True, **loops.HARMLESS | {"lr": 80.0})
pair("GAN, bounded generator", "GAN", bounded, "architecture", held_out=True, metric=loops.nearness, last=nn.Sigmoid(),
     **loops.POINTS_HARMLESS)  # fmt: skip
pair("image, zero weights and rate", "image", zeroed, "initial weights, learning rate", held_out=True, zero=True,
     **vision.HARMLESS | {"lr": 1e-7})  # fmt: skip
