"""The batch viewer: what it recognizes, what it says, what it leaves alone, and its three forms."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.errors import BadInput
from nbdebug.views.batch import BatchViewer
from nbdebug.views.batch_preview.preview import Part
from tests.trust.fingerprint import difference, fingerprint
from tests.views.batches import Augmented, faces, normalized, waves
from tests.zoo.tabular import digits

LABELS = torch.arange(8) % 3
HOSTILE = "<img src=x onerror=alert(1)>"


def shown(batch: Any, **options: Any) -> tuple[BatchViewer, Part]:
    """Show one batch and give the viewer with its first part."""
    viewer = nbdebug.show_batch([batch], **options)
    return viewer, viewer.batch.parts[0]


def middle(picture: np.ndarray) -> list[int]:
    """Return the color of a picture's center."""
    return [int(v) for v in picture[picture.shape[0] // 2, picture.shape[1] // 2]]


def test_a_normalization_is_recognized_and_undone() -> None:
    """The picture that is shown is the one before normalizing, pixel for pixel, and it is said which constants."""
    pictures = faces()
    _, part = shown((normalized(pictures), LABELS))
    assert part.kind == "image" and any("ImageNet" in said for said in part.says)
    expected = (pictures[3].permute(1, 2, 0) * 255).round().numpy().astype(np.uint8)
    assert np.array_equal(part.items[3], expected)


def test_the_loaders_own_normalization_is_used() -> None:
    """Constants that nobody could guess are read off a transform that holds them."""

    class Normalize:
        mean, std = None, None

        def __init__(self) -> None:
            self.mean, self.std = [0.3, 0.3, 0.3], [0.7, 0.6, 0.5]

    data = TensorDataset((faces() - 0.3) / torch.tensor([0.7, 0.6, 0.5])[:, None, None], LABELS)
    data.transform = Normalize()  # type: ignore[attr-defined]
    part = nbdebug.show_batch(DataLoader(data, 8)).batch.parts[0]
    assert "0.7, 0.6, 0.5" in part.says[0] and "loader's transforms" in part.says[0]
    assert np.array_equal(part.items[1], (faces()[1].permute(1, 2, 0) * 255).round().numpy().astype(np.uint8))


@pytest.mark.parametrize(
    ("pictures", "said"),
    [
        (faces(), "shown as 0 to 1"),
        (faces() * 255, "0 to 255"),
        ((faces() * 255).to(torch.uint8), "0 to 255"),
        (faces() * 2 - 1, "0.5 and 0.5"),
        (faces().permute(0, 2, 3, 1), "channels last"),
        (faces() * 7 - 30, "unknown range"),
        (faces(channels=5), "5 channels, side by side"),
        (faces(channels=1)[:, 0], "shown as 0 to 1"),
        (faces().reshape(8, 3, -1)[:, 0], "reshaped to 24 × 24"),
        (faces(24).reshape(8, 3, 3, 24, 24), "frames or slices"),
        (faces(channels=4, size=24).half(), "4 channels"),
    ],
)
def test_pictures_of_every_make(pictures: torch.Tensor, said: str) -> None:
    """Color, gray, many channels, channels last, flattened, frames: pictures, with a word about what was done."""
    _, part = shown((pictures, LABELS))
    assert part.kind == "image" and any(said in each for each in part.says), part.says
    assert all(item.dtype == np.uint8 and item.shape[2] == 3 for item in part.items)


def test_pixels_that_are_no_numbers_are_marked() -> None:
    """NaN and infinity become magenta, also where the picture is made smaller, and they are counted."""
    pictures = normalized(faces(size=224))
    pictures[2, :, 100:104, 50] = float("nan")
    pictures[5, 0, 0, 0] = float("inf")
    _, part = shown((pictures, LABELS))
    assert any("5 pixels in 2 of 8 samples" in said for said in part.says)
    marked = [bool((item == [255, 0, 255]).all(2).any()) for item in part.items]
    assert marked == [i in (2, 5) for i in range(8)]
    assert max(part.items[0].shape) == 112


def test_rows_of_numbers() -> None:
    """A table has its columns' names, and what is no number is counted and drawn as such."""
    rows = torch.randn(8, 3)
    rows[1, 2] = float("nan")
    viewer, part = shown((rows, LABELS), column_names=["age", "income", HOSTILE])
    assert part.kind == "table" and part.columns == ("age", "income", HOSTILE)
    assert viewer.data["parts"][0]["items"][1][2] is None
    assert sum(viewer.data["parts"][0]["histograms"][2]["counts"]) == 7
    assert "NaN or infinite values: 1" in part.says


def test_tokens_with_words_and_padding() -> None:
    """Ids become the tokenizer's words; padding is found by the mask, by the tokenizer, or by how rows end."""
    ids = torch.tensor([[1, 2, 3, 0, 0], [1, 2, 0, 0, 0], [1, 2, 3, 2, 1]])
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
    batch = {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([0, 1, 1])}
    viewer, part = shown(batch, tokenizer=["·", "a", "b"])
    assert [p.name for p in viewer.batch.parts] == ["input_ids"]  # the mask greys, and is no part of its own
    assert part.items[0].words == ("a", "b", "‹3›", "·", "·") and part.items[1].padding == (
        False,
        False,
        True,
        True,
        True,
    )
    del batch["attention_mask"]
    assert shown(batch)[1].items[1].padding == (False, False, True, True, True)


@pytest.mark.parametrize(
    ("values", "channels", "steps"),
    [
        (waves(), 2, 120),
        (waves().transpose(1, 2), 2, 120),
        (waves(8, 1, 4000)[:, 0], 1, 4000),
        (waves(8, 30, 90), 6, 90),
    ],
)
def test_curves_over_time(values: torch.Tensor, channels: int, steps: int) -> None:
    """Series and sounds are drawn over time wherever that axis is; long ones as the range of each stretch."""
    _, part = shown((values, LABELS))
    assert part.kind == "series"
    item = part.items[0]
    assert item.low.shape[0] == channels and item.steps == steps and item.low.shape[1] <= 160
    if steps > 160:
        assert item.low.min() == pytest.approx(float(values[0].min())) and (item.low <= item.high).all()


def test_masks_and_what_a_model_predicts() -> None:
    """A map of classes is painted, and so is the prediction; each sample says how much of it is right."""
    masks = (faces(channels=1)[:, 0] * 2.99).long()
    model = nn.Conv2d(3, 3, 1)
    viewer, _ = shown((faces(), masks), model=model)
    kinds = [(part.role, part.kind) for part in viewer.batch.parts]
    assert kinds == [("input", "image"), ("target", "mask"), ("prediction", "mask")]
    assert viewer.batch.parts[1].items[0].shape[2] == 4
    best = model(faces()).argmax(1)
    share = float((best[0] == masks[0]).float().mean())
    assert viewer.batch.samples[0].predicted == f"{share:.0%} right"


def test_several_inputs_and_leftovers() -> None:
    """A dict of several inputs is shown input by input, and what the model does not get is named."""

    class Two(nn.Module):
        def forward(self, image: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
            return image.mean((1, 2, 3))[:, None] * torch.ones(1, 3) + age[:, None]

    batch = {"image": faces(), "age": torch.rand(8), "path": [f"{i}.png" for i in range(8)], "labels": LABELS}
    viewer, _ = shown(batch, model=Two())
    assert [(p.name, p.kind) for p in viewer.batch.parts] == [("image", "image"), ("age", "table")]
    assert "Not passed to the model: path." in viewer.batch.notes
    assert all(sample.loss is not None for sample in viewer.batch.samples)


def test_samples_of_different_sizes() -> None:
    """A list of pictures of different sizes, with boxes, as detection has them."""
    pictures = [faces(1, 3, 16 + i)[0] for i in range(4)]
    boxes = [{"boxes": torch.rand(2, 4), "labels": torch.tensor([1, 2])} for _ in range(4)]
    viewer, part = shown((pictures, boxes))
    assert part.kind == "image" and [item.shape[0] for item in part.items] == [16, 17, 18, 19]
    assert "labels: 1, 2" in viewer.batch.parts[1].items[0]


def test_predictions_are_those_of_the_model() -> None:
    """Prediction, confidence, loss and right or wrong agree with a plain forward pass in eval mode."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 10))
    viewer = nbdebug.show_batch(digits(), model, nn.CrossEntropyLoss(label_smoothing=0.1))
    data = digits().dataset
    rows = torch.stack([data[s.index][0] for s in viewer.batch.samples])
    labels = torch.stack([torch.as_tensor(data[s.index][1]) for s in viewer.batch.samples])
    scores = model.eval()(rows)
    losses = nn.functional.cross_entropy(scores, labels, label_smoothing=0.1, reduction="none")
    assert [s.predicted for s in viewer.batch.samples] == [str(int(i)) for i in scores.argmax(1)]
    assert [s.loss for s in viewer.batch.samples] == pytest.approx(losses.tolist(), abs=1e-5)
    assert [s.right for s in viewer.batch.samples] == (scores.argmax(1) == labels).tolist()
    assert [s.confidence for s in viewer.batch.samples] == pytest.approx(scores.softmax(1).amax(1).tolist(), abs=1e-5)
    assert sum(count for _, count in viewer.batch.class_counts) == viewer.batch.size


def test_a_loss_that_is_no_number_does_not_look_like_none() -> None:
    """NaN travels to the front end by its name."""
    rows = torch.randn(8, 4)
    rows[3] = float("nan")
    viewer, _ = shown((rows, LABELS), model=nn.Linear(4, 3))
    assert viewer.data["samples"][3]["loss"] == "NaN" and isinstance(viewer.data["samples"][0]["loss"], float)


def test_next_previous_and_again() -> None:
    """The next batch has other samples, the previous one is as it was, and drawing again augments anew."""
    loader = DataLoader(Augmented(), 4, shuffle=True)
    viewer = nbdebug.show_batch(loader)
    first = viewer.batch
    assert viewer.next().batch.number == 2 and viewer.batch.of == 4
    assert {s.index for s in first.samples}.isdisjoint({s.index for s in viewer.batch.samples})
    assert viewer.previous().batch is first
    viewer.next()
    before = viewer.batch
    drawn = [viewer.again().batch for _ in range(3)]
    assert all([s.index for s in b.samples] == [s.index for s in before.samples] for b in drawn)
    pictures = [np.stack(b.parts[0].items) for b in (before, *drawn)]
    assert any(not np.array_equal(pictures[0], p) for p in pictures[1:])
    for _ in range(3):
        viewer.next()
    assert viewer.batch.number == 1 and "last batch" in viewer.batch.notes[0]


def test_one_sample_raw_and_drawn_again() -> None:
    """One sample: large, before its transforms, and in several draws that differ by the flip."""
    viewer = nbdebug.show_batch(DataLoader(Augmented(), 4))
    sample = viewer.sample(1)
    assert sample.index == 1
    assert np.array_equal(sample.raw[0].items[0], Augmented().pictures[1])
    kinds = {item.tobytes() for item in sample.draws[0].items}
    assert len(kinds) == 2
    still = nbdebug.show_batch(digits()).sample(0)
    assert not still.draws and "same values every time" in still.notes[0]


def test_nothing_of_the_users_changes() -> None:
    """Loader, data set, model and generators are bit-identical, also with a live iterator and augmentation."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(3))
    loader = DataLoader(Augmented(), 4, shuffle=True, generator=torch.Generator().manual_seed(5))
    going = iter(loader)
    next(going)
    viewer = nbdebug.show_batch([(faces(), LABELS)], model)  # so that everything is imported
    viewer.close()
    before = fingerprint(model, loader)
    viewer = nbdebug.show_batch(loader, model, class_names=["a", "b", "c"])
    viewer.next().again()
    viewer.sample(0)
    str(viewer), viewer.html, viewer.data, viewer.png
    assert not difference(before, fingerprint(model, loader))


def test_its_three_forms() -> None:
    """Data that JSON can hold, a page without anything active, and text; hostile names stay texts in all of them."""
    names = [HOSTILE, "b", "c"]
    viewer, _ = shown(
        (normalized(faces()), LABELS), class_names=names, model=nn.Sequential(nn.Flatten(), nn.Linear(1728, 3))
    )
    data = json.dumps(viewer.data, allow_nan=False)
    assert len(data) < 100_000
    assert HOSTILE not in viewer.html and "&lt;img src=x" in viewer.html
    assert viewer.png.startswith(b"\x89PNG")
    assert HOSTILE in str(viewer) and "Batch 1 of 1: 8 samples" in str(viewer)
    assert repr(viewer).startswith("<nbdebug Batch 1 of 1")


@pytest.mark.parametrize(
    "batch", [(waves(), LABELS), (torch.randn(8, 3), LABELS), (torch.randint(1, 9, (8, 12)), LABELS)]
)
def test_every_kind_has_a_page_and_a_text(batch: Any) -> None:
    """No kind is forgotten in the static page or in the text."""
    viewer, part = shown(batch)
    assert part.kind in str(viewer)
    assert ("<img" in viewer.html) or ("<td>" in viewer.html) or ("<li>" in viewer.html)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"loader": None}, "loader"),
        ({"loader": iter([1])}, "loader"),
        ({"loader": []}, "loader"),
        ({"loader": [("a", "b")]}, "loader"),
        ({"loader": [(faces(), LABELS)], "samples": 0}, "samples"),
        ({"loader": [(faces(), LABELS)], "model": 7}, "model"),
        ({"loader": [(faces(), LABELS)], "tokenizer": 7}, "tokenizer"),
        ({"loader": [(faces(), LABELS)], "class_names": "abc"}, "class_names"),
        ({"loader": [(faces(), LABELS)], "column_names": 3}, "column_names"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], where: str) -> None:
    """What cannot be shown is refused with a message that says what to hand over instead."""
    with pytest.raises(BadInput) as caught:
        nbdebug.show_batch(**options)
    assert caught.value.where == where and caught.value.do


def test_a_place_outside_the_batch_is_refused() -> None:
    """A sample that is not there is refused."""
    with pytest.raises(BadInput, match="0 to 7"):
        shown((faces(), LABELS))[0].sample(8)


def test_a_failing_model_and_failing_samples_are_said() -> None:
    """The batch is shown all the same, with what went wrong."""

    class Broken(Augmented):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            if index == 2:
                raise OSError("the file is gone")
            return super().__getitem__(index)

    viewer = nbdebug.show_batch(DataLoader(Broken(), 4), nn.Linear(7, 3))
    assert [s.index for s in viewer.batch.samples] == [0, 1, 3]
    said = " ".join(viewer.batch.notes)
    assert "Sample 2 fails while reading (OSError: the file is gone)" in said and "The model fails" in said
