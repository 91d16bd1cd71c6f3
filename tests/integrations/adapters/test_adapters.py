"""Trainings whose loop is not the user's, watched by a callback; against the real libraries, where installed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.recording import Recording

INPUTS = torch.randn(256, 16, generator=torch.Generator().manual_seed(0))
LABELS = INPUTS[:, :4].argmax(1)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(INPUTS, LABELS), 16, shuffle=True)


def recorded(callback: Any, model: nn.Module) -> Recording:
    """Return the run: nothing is left on the model, weights moved, and the run can be judged and is found healthy."""
    found: Recording = callback.live.recording()
    assert found.parameters and max(p.update.last for p in found.parameters.values()) > 0
    assert not callback.live.is_running
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    report = callback.live.report()
    assert not report.alarms and not [result for result in report.results if result.status == "crashed"]
    return found


def test_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="Lightning is not installed")
    from nbdebug.integrations.lightning import WatchCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            self.net(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-2)

    callback, model = WatchCallback(every=1), Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_epochs=4, accelerator="cpu", callbacks=[callback], default_root_dir=tmp_path, **quiet
        )
        trainer.fit(model, loader(), loader())
    found = recorded(callback, model)
    assert found.steps == len(found.loss) == 64 and {"net.0", "net.2"} <= set(found.layers)
    assert found.optimizer == "Adam" and found.tally.backwards_per_step == ((1, 64),)


def test_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate, which the Trainer needs, is not installed")
    from nbdebug.integrations.transformers import WatchCallback

    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=50, num_labels=2, **small))
    data = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)} for i in range(128)]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True
    )
    callback = WatchCallback(every=1)
    transformers.Trainer(model=model, args=options, train_dataset=data, callbacks=[callback]).train()
    found = recorded(callback, model)
    assert found.steps == len(found.loss) == 32 and "classifier" in found.layers
    assert found.tally.backwards_per_step == ((1, 32),) and len(found.rates["0"]) > 1
    assert found.rates["0"].values[0] > found.rates["0"].last > 0  # the Trainer lowers it


def test_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    from nbdebug.integrations.keras import WatchCallback

    model = keras.Sequential(
        [keras.layers.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)]
    )
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callback = WatchCallback(every=1)
    model.fit(INPUTS.numpy(), LABELS.numpy(), batch_size=16, epochs=2, verbose=0, callbacks=[callback])
    found = recorded(callback, model)
    assert found.steps == len(found.loss) == 32 and len(found.parameters) == 4
    assert list(found.layers) == ["model"] and "not called as torch modules" in found.unseen[0]  # Keras calls them
    assert "apply" not in vars(model.optimizer)


def test_fastai() -> None:
    pytest.importorskip("fastai", reason="fastai is not installed")
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner

    from nbdebug.integrations.fastai import WatchCallback

    callback, model = WatchCallback(every=1), net()
    learner = Learner(DataLoaders(loader(), loader()), model, loss_func=nn.CrossEntropyLoss(), cbs=[callback])
    learner.fit(3, 1e-2)
    found = recorded(callback, model)
    assert found.steps == len(found.loss) == 48 and {"0", "2"} <= set(found.layers)
    assert "step" not in vars(learner.opt)
