"""Hugging Face transformers and peft, tiny and from random weights."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_1.fdev_data import reviews


def _collate_cls(rows):
    ids = pad_sequence([torch.tensor(t) for t, _ in rows], batch_first=True, padding_value=0)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([y for _, y in rows])}


@sound(
    "BertForSequenceClassification, ragged dict batches, AdamW with no decay on biases and norms, linear warm-up",
    source="transformers run_glue_no_trainer example",
)
def hf_bert_glue_style():
    from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

    torch.manual_seed(0)
    cfg = BertConfig(
        vocab_size=60,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
        num_labels=2,
        pad_token_id=0,
    )
    model = BertForSequenceClassification(cfg)
    no_decay = ["bias", "LayerNorm.weight"]
    groups = [
        {"params": [p for n, p in model.named_parameters() if not any(k in n for k in no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in model.named_parameters() if any(k in n for k in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=30, num_training_steps=1200)
    loader = DataLoader(reviews(1200, 0), batch_size=32, shuffle=True, collate_fn=_collate_cls)
    val = DataLoader(reviews(300, 1), batch_size=64, collate_fn=_collate_cls)
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


def _progressions(n, seed=0):
    """Numbers going up by a constant step modulo 29, ragged; 30 begins, 31 pads."""
    r = np.random.RandomState(seed)
    out = []
    for _ in range(n):
        a, d, length = r.randint(29), r.randint(1, 6), r.randint(6, 15)
        out.append([30] + [(a + d * i) % 29 for i in range(length)])
    return out


def _collate_lm(rows):
    ids = pad_sequence([torch.tensor(t) for t in rows], batch_first=True, padding_value=31)
    mask = (ids != 31).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def _clipped_step(model, batch, loss_fn, optimizer):
    model.train()
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


@sound(
    "GPT2LMHeadModel on ragged sequences, padded labels at -100, gradient clipping in the loop", source="transformers"
)
def hf_gpt2_ragged_lm():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    cfg = GPT2Config(vocab_size=32, n_positions=20, n_embd=64, n_layer=2, n_head=4, bos_token_id=30, eos_token_id=31)
    model = GPT2LMHeadModel(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    loader = DataLoader(_progressions(1000), batch_size=32, shuffle=True, collate_fn=_collate_lm)
    val = DataLoader(_progressions(200, 1), batch_size=50, collate_fn=_collate_lm)
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "optimizer": optimizer,
        "train_step": _clipped_step,
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


def _sorting(n, seed=0):
    r = np.random.RandomState(seed)
    rows = []
    for _ in range(n):
        items = r.choice(np.arange(2, 26), size=r.randint(3, 8), replace=False)
        rows.append((items.tolist() + [1], sorted(items.tolist()) + [1]))
    return rows


def _collate_seq2seq(rows):
    ids = pad_sequence([torch.tensor(a) for a, _ in rows], batch_first=True, padding_value=0)
    lab = pad_sequence([torch.tensor(b) for _, b in rows], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": lab}


@sound(
    "T5ForConditionalGeneration that learns to sort its input, Adafactor with a fixed learning rate",
    source="transformers T5 docs (training; Adafactor settings)",
)
def hf_t5_sorting_adafactor():
    from transformers import Adafactor, T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    cfg = T5Config(
        vocab_size=26,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        dropout_rate=0.05,
    )
    model = T5ForConditionalGeneration(cfg)
    optimizer = Adafactor(model.parameters(), lr=3e-3, relative_step=False, scale_parameter=False, warmup_init=False)
    loader = DataLoader(_sorting(1200), batch_size=32, shuffle=True, collate_fn=_collate_seq2seq)
    return {
        "model": model,
        "loader": loader,
        "optimizer": optimizer,
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


@sound(
    "LoRA on the attention of a frozen BERT, classifier in modules_to_save; only trainable parameters in the optimizer",
    source="peft sequence classification example",
)
def peft_lora_frozen_bert():
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    cfg = BertConfig(
        vocab_size=60,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
        num_labels=2,
        pad_token_id=0,
        initializer_range=0.1,
    )
    model = get_peft_model(
        BertForSequenceClassification(cfg),
        LoraConfig(
            task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["query", "value"]
        ),
    )
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    loader = DataLoader(reviews(1200, 0), batch_size=32, shuffle=True, collate_fn=_collate_cls)
    val = DataLoader(reviews(300, 1), batch_size=64, collate_fn=_collate_cls)
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "optimizer": optimizer,
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }
