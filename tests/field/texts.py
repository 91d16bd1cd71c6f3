"""Language models of Hugging Face, from small configurations with random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.field import Columns, program
from tests.zoo.samples import seeded

PAD = 0


def words(count: int = 400, length: int = 20, vocab: int = 100, classes: int = 2) -> tuple[torch.Tensor, ...]:
    """Return tokens of several lengths, their mask, and a class that decides which words are frequent."""
    g = seeded()
    labels = torch.randint(0, classes, (count,), generator=g)
    each = (vocab - 5) // classes
    topic = 5 + each * labels[:, None] + torch.randint(0, each, (count, length), generator=g)
    ids = torch.randint(5, vocab, (count, length), generator=g)
    ids = torch.where(torch.rand(count, length, generator=g) < 0.5, topic, ids)
    lengths = torch.randint(length // 3, length + 1, (count,), generator=g)
    mask = (torch.arange(length) < lengths[:, None]).long()
    return ids * mask, mask, labels


def chains(count: int = 320, length: int = 20, vocab: int = 40, low: int = 5) -> torch.Tensor:
    """Return sequences in which a token has one likely successor and two others."""
    g = seeded()
    after = torch.randint(low, vocab, (vocab, 3), generator=g)
    ids = torch.randint(low, vocab, (count, length), generator=g)
    for t in range(1, length):
        pick = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), count, replacement=True, generator=g)
        ids[:, t] = after[ids[:, t - 1], pick]
    return ids


def made(model: nn.Module, data: Any, lr: float = 1e-3, **more: Any) -> dict[str, Any]:
    """Put a set-up together; AdamW on what is trained, unless another optimizer is given."""
    collate = more.pop("collate_fn", None)
    optimizer = more.pop("optimizer", None)
    trained = [p for p in model.parameters() if p.requires_grad]
    return {
        "model": model,
        "loader": DataLoader(data, batch_size=20, shuffle=True, collate_fn=collate),
        "optimizer": optimizer or torch.optim.AdamW(trained, lr=lr),
        **more,
    }


def small(**more: Any) -> dict[str, Any]:
    """Return the sizes of a small encoder."""
    return {
        "vocab_size": 100,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 40,
        **more,
    }


@program(
    "positions",
    "transformers",
    sees_the_future=("causal-leak",),
    targets_unshifted=("unshifted-targets",),
    shifted_twice=("unshifted-targets",),
)
def gpt2_next_token(fault: str = "") -> dict[str, Any]:
    """GPT-2 on chains of tokens; the model shifts the labels itself."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=2, n_positions=24))
    ids = chains()
    data = Columns(input_ids=ids, labels=ids)
    if fault == "sees_the_future":
        for block in model.transformer.h:
            block.attn.is_causal = False
    if fault == "shifted_twice":
        data = Columns(input_ids=ids[:, :-1], labels=ids[:, 1:])
    if fault == "targets_unshifted":

        def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
            logits = model(batch["input_ids"]).logits
            return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

        return made(model, data, compute_loss=compute_loss)
    return made(model, data)


@program("positions", "transformers", pads_are_predicted=("padding-dominates", "loss-mask-inverted"))
def llama_padded_and_tied(fault: str = "") -> dict[str, Any]:
    """Llama with tied weights and grouped queries on padded sequences; labels of padding are ignored."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = small(vocab_size=40, num_key_value_heads=1, tie_word_embeddings=True, pad_token_id=PAD)
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    ids = chains()
    lengths = torch.randint(5, 21, (len(ids),), generator=seeded(1))
    mask = (torch.arange(20) < lengths[:, None]).long()
    labels = (ids * mask).masked_fill(mask == 0, PAD if fault == "pads_are_predicted" else -100)
    return made(model, Columns(input_ids=ids * mask, attention_mask=mask, labels=labels))


@program(
    "attention",
    "transformers",
    mask_inverted=("inverted-attention-mask",),
    mask_forgotten=("padding-dominates",),
    head_frozen=("frozen-parameters",),
    head_exchanged_later=("parameters-missing-from-optimizer",),
    probabilities_into_the_loss=("softmax-before-cross-entropy",),
)
def bert_classifies(fault: str = "") -> dict[str, Any]:
    """BERT that classifies padded texts."""
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(**small(num_labels=2)))
    ids, mask, labels = words()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Columns(input_ids=ids, attention_mask=mask, labels=labels)
    if fault == "mask_inverted":
        data = Columns(input_ids=ids, attention_mask=1 - mask, labels=labels)
    if fault == "mask_forgotten":
        data = Columns(input_ids=ids, labels=labels)
    if fault == "head_frozen":
        model.classifier.requires_grad_(False)
    if fault == "head_exchanged_later":
        model.classifier = nn.Linear(32, 2)
    if fault == "probabilities_into_the_loss":

        def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
            out = model(batch["input_ids"], attention_mask=batch["attention_mask"])
            return F.cross_entropy(out.logits.softmax(-1), batch["labels"])

        return made(model, data, optimizer=optimizer, compute_loss=compute_loss)
    return made(model, data, optimizer=optimizer)


def masked(rows: list[dict[str, Any]], *, all_positions: bool = False) -> dict[str, torch.Tensor]:
    """Mask 15 % of the tokens; the others are no target."""
    ids = torch.stack([row["input_ids"] for row in rows])
    mask = torch.stack([row["attention_mask"] for row in rows])
    chosen = (torch.rand(ids.shape) < 0.15) & (mask == 1)
    chosen[:, 1] = True
    labels = ids.clone() if all_positions else ids.masked_fill(~chosen, -100)
    return {"input_ids": ids.masked_fill(chosen, 3), "attention_mask": mask, "labels": labels}


def masked_everywhere(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Mask 15 % of the tokens, and take all of them for targets."""
    return masked(rows, all_positions=True)


@program(
    "attention",
    "transformers",
    visible_tokens_count=("visible-tokens-predicted",),
    encoder_looks_back_only=("masked-model-is-causal",),
)
def roberta_fills_masks(fault: str = "") -> dict[str, Any]:
    """RoBERTa as a masked language model."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    is_causal = fault == "encoder_looks_back_only"
    config = RobertaConfig(**small(vocab_size=40, pad_token_id=PAD, is_decoder=is_causal))
    ids = chains()
    lengths = torch.randint(10, 21, (len(ids),), generator=seeded(1))
    mask = (torch.arange(20) < lengths[:, None]).long()
    collate = masked_everywhere if fault == "visible_tokens_count" else masked
    return made(RobertaForMaskedLM(config), Columns(input_ids=ids * mask, attention_mask=mask), collate_fn=collate)


@program("positions", "transformers", decoder_reads_its_targets=("unshifted-targets", "target-leaks-into-inputs"))
def t5_reverses(fault: str = "") -> dict[str, Any]:
    """T5 that writes its input backwards."""
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"vocab_size": 40, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=PAD, pad_token_id=PAD))
    ids = chains(length=8)
    data = Columns(input_ids=ids, labels=ids.flip(1))
    if fault == "decoder_reads_its_targets":
        data = Columns(input_ids=ids, decoder_input_ids=ids.flip(1), labels=ids.flip(1))
    return made(model, data, lr=3e-3)


@program("positions", "transformers")
def distilbert_tags(fault: str = "") -> dict[str, Any]:
    """DistilBERT that tags tokens; padding and the first token are ignored."""
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    sizes = {"vocab_size": 100, "dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64, "num_labels": 3}
    model = DistilBertForTokenClassification(DistilBertConfig(**sizes, max_position_embeddings=40))
    ids, mask, _ = words()
    tags = torch.where(ids > 70, 1, torch.where(ids.roll(1, 1) > 70, 2, 0)).masked_fill(mask == 0, -100)
    tags[:, 0] = -100
    return made(model, Columns(input_ids=ids, attention_mask=mask, labels=tags))


@program(
    "wrapped forwards",
    "transformers",
    "peft",
    adapter_in_no_optimizer=("parameters-missing-from-optimizer",),
)
def lora_adapters(fault: str = "") -> dict[str, Any]:
    """Adapters of low rank in a BERT whose own weights are frozen."""
    import peft
    from transformers import BertConfig, BertForSequenceClassification

    base = BertForSequenceClassification(BertConfig(**small(num_labels=2)))
    before = torch.optim.AdamW(base.parameters(), lr=3e-3)
    config = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"], lora_dropout=0.05)
    model = peft.get_peft_model(base, config)
    ids, mask, labels = words()
    optimizer = before if fault == "adapter_in_no_optimizer" else None
    data = Columns(input_ids=ids, attention_mask=mask, labels=labels)
    return made(model, data, lr=3e-3, optimizer=optimizer)


@program("wrapped forwards", "transformers", "accelerate", gradients_kept=("accumulated-gradients",))
def accelerated_step(fault: str = "") -> dict[str, Any]:
    """A training step of accelerate in bfloat16, whose forward is replaced on the instance."""
    from accelerate.utils import convert_outputs_to_fp32
    from transformers import ElectraConfig, ElectraForSequenceClassification

    model = ElectraForSequenceClassification(ElectraConfig(**small(num_labels=2, embedding_size=16)))
    inner = model.forward

    def autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return inner(*args, **kwargs)

    model.forward = convert_outputs_to_fp32(autocast)
    ids, mask, labels = words()

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = model(**batch).loss
        if fault != "gradients_kept":
            optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return made(model, Columns(input_ids=ids, attention_mask=mask, labels=labels), train_step=train_step)
