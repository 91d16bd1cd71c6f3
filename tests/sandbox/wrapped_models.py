"""Models as libraries leave them: wrapped, patched, prepared, compiled or with adapters; and how each is examined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import peft
import torch
import transformers
from accelerate import Accelerator
from accelerate.hooks import ModelHook, add_hook_to_module
from accelerate.utils.operations import ConvertOutputsToFp32, convert_outputs_to_fp32
from torch import nn

from nbdebug.setup import unwrap

INPUTS = torch.randn(512, 20, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS @ torch.randn(20, 4, generator=torch.Generator().manual_seed(1))).argmax(1)
TOKENS = torch.randint(4, 40, (256, 12), generator=torch.Generator().manual_seed(0))
TOKENS[:, 0] = torch.arange(256) % 2  # the class, where it is read first
SMALL = {"vocab_size": 40, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(20, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


def prepared(model: nn.Module) -> nn.Module:
    made: nn.Module = Accelerator(mixed_precision="bf16", cpu=True).prepare_model(model)
    return made


def prepared_twice() -> nn.Module:
    """The second time there is no method to wrap, so that the closures hold the model's own forward."""
    model = prepared(Net())
    model.forward = convert_outputs_to_fp32(torch.autocast("cpu", torch.bfloat16)(model.forward))
    return model


def wrapped_by_an_object() -> nn.Module:
    model = Net()
    model.forward = ConvertOutputsToFp32(model.forward)  # type: ignore[method-assign]
    return model


def with_adapters(model: nn.Module, *targets: str) -> nn.Module:
    made: nn.Module = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=list(targets), lora_alpha=32))
    return made


def bert() -> nn.Module:
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    size |= {"initializer_range": 0.15}  # the usual 0.02 is meant for a width of 768
    config = transformers.BertConfig(vocab_size=40, num_labels=2, max_position_embeddings=16, **size)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return transformers.BertForSequenceClassification(config)


def gpt2() -> nn.Module:
    size = {"n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2, "resid_pdrop": 0.0, "initializer_range": 0.15}
    return transformers.GPT2ForSequenceClassification(
        transformers.GPT2Config(num_labels=2, embd_pdrop=0.0, attn_pdrop=0.0, **SMALL, **size)
    )


def lora(model: nn.Module, *targets: str) -> nn.Module:
    config = peft.LoraConfig(r=8, target_modules=list(targets), lora_alpha=32, task_type="SEQ_CLS")
    made: nn.Module = peft.get_peft_model(model, config)
    return made


def normed(norm: Callable[..., nn.Module]) -> nn.Module:
    model = Net()
    norm(model.fc1)
    return model


def parametrized() -> nn.Module:
    model = Net()
    nn.utils.parametrize.register_parametrization(model.fc1, "weight", nn.Identity())
    return model


def compiled_in_place() -> nn.Module:
    model = Net()
    model.compile(backend="eager")
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": Net,
    "accelerate": lambda: prepared(Net()),
    "accelerate, twice": prepared_twice,
    "accelerate, compiled": lambda: prepared(torch.compile(Net(), backend="eager")),
    "accelerate, hook": lambda: add_hook_to_module(Net(), ModelHook()),
    "accelerate, object": wrapped_by_an_object,
    "peft": lambda: with_adapters(Net(), "fc1", "fc2"),
    "peft, prepared": lambda: prepared(with_adapters(Net(), "fc1", "fc2")),
    "bert": bert,
    "bert, lora": lambda: lora(bert(), "query", "value"),
    "gpt2, lora, prepared": lambda: prepared(lora(gpt2(), "c_attn")),
    "parametrized": parametrized,
    "weight_norm": lambda: normed(nn.utils.parametrizations.weight_norm),
    "spectral_norm": lambda: normed(nn.utils.parametrizations.spectral_norm),
    "compiled": lambda: torch.compile(Net(), backend="eager"),
    "compiled in place": compiled_in_place,
    "DataParallel": lambda: nn.DataParallel(Net()),
    "wrapper of prepared": lambda: Wrapper(prepared_twice()),
}


def setup_of(model: nn.Module) -> dict[str, Any]:
    if isinstance(unwrap(model), (transformers.PreTrainedModel, peft.PeftModelForSequenceClassification)):
        data: Any = [{"input_ids": row, "labels": row[0]} for row in TOKENS]
        return {"model": model, "loader": torch.utils.data.DataLoader(data, 32, shuffle=True)}
    dataset = torch.utils.data.TensorDataset(INPUTS, LABELS)
    loader = torch.utils.data.DataLoader(dataset, 32, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


def made(make: Callable[[], nn.Module]) -> dict[str, Any]:
    torch.manual_seed(0)
    setup = setup_of(make())
    setup["optimizer"] = torch.optim.Adam([p for p in setup["model"].parameters() if p.requires_grad], 3e-3)
    return setup
