"""Language models: a nanoGPT rewrite, mambapy, x-transformers, Mixtral, masked LM, CLIP."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_2.fheld_data import corpus, digit_tensors, markov_sentences


class Block(nn.Module):
    def __init__(self, n, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.ln_1, self.ln_2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.c_attn, self.c_proj = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n), nn.Dropout(drop))

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = (
            u.view(b, t, self.heads, n // self.heads).transpose(1, 2) for u in self.c_attn(self.ln_1(x)).split(n, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop if self.training else 0.0, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, n))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(self, vocab, block=32, n=64, heads=4, layers=2, drop=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n), nn.Embedding(block, n)
        self.h = nn.ModuleList(Block(n, heads, drop) for _ in range(layers))
        self.ln_f = nn.LayerNorm(n)
        self.lm_head = nn.Linear(n, vocab, bias=False)
        self.wte.weight = self.lm_head.weight
        self.apply(self._init)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight") or name.endswith("mlp.2.weight"):
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * layers))

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, 0.0, 0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    def configure_optimizers(self, lr, weight_decay):
        decay = [p for p in self.parameters() if p.dim() >= 2]
        rest = [p for p in self.parameters() if p.dim() < 2]
        return torch.optim.AdamW(
            [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}],
            lr=lr,
            betas=(0.9, 0.95),
        )


class CharBlocks(Dataset):
    def __init__(self, data, block, n, seed):
        self.data, self.block = data, block
        places = np.arange(len(data) - block - 1)
        held = places // 400 % 10 == 9  # each tenth stretch of the text is held out
        mine = held if seed else ~held & ~(np.minimum(places + block + 1, len(data) - 1) // 400 % 10 == 9)
        self.starts = np.random.RandomState(seed).choice(places[mine], size=n, replace=False)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = int(self.starts[i])
        return self.data[s : s + self.block], self.data[s + 1 : s + 1 + self.block]


@sound(
    "nanoGPT on characters: tied embedding and head, scaled residual init, decay groups, clipping, bf16 autocast",
    source="karpathy/nanoGPT, rewritten",
)
def nanogpt_tied_bf16():
    torch.manual_seed(0)
    data, chars = corpus()
    model = NanoGPT(len(chars), n=48)

    def compute_loss(model, batch, loss_fn):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(*batch)[1]

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        loss = compute_loss(model, batch, loss_fn)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return {
        "model": model,
        "loader": DataLoader(CharBlocks(data, 32, 1500, 0), batch_size=12, shuffle=True),
        "val_loader": DataLoader(CharBlocks(data, 32, 200, 1), batch_size=50),
        "optimizer": model.configure_optimizers(3e-3, 0.1),
        "train_step": train_step,
        "compute_loss": compute_loss,
    }


class MambaLM(nn.Module):
    def __init__(self, vocab, dim=32, layers=1):
        from mambapy.mamba import Mamba, MambaConfig

        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mamba = Mamba(MambaConfig(d_model=dim, n_layers=layers, d_state=4, pscan=True))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.mamba(self.embed(x)))).transpose(1, 2)


@sound(
    "selective state space model (pure PyTorch Mamba with the parallel scan) on a Markov source of tokens",
    source="mamba.py (mambapy)",
)
def mambapy_next_token():
    torch.manual_seed(0)
    s, v = markov_sentences(1000, 13), markov_sentences(200, 13, seed=1)
    model = MambaLM(33)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(s[:, :-1], s[:, 1:]), batch_size=16, shuffle=True),
        "val_loader": DataLoader(TensorDataset(v[:, :-1], v[:, 1:]), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1),
    }


@sound(
    "x-transformers decoder in AutoregressiveWrapper: the model takes whole sequences, shifts them itself and returns the loss",
    source="x-transformers README (enwik8 example)",
)
def xtransformers_autoregressive():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    torch.manual_seed(0)
    model = AutoregressiveWrapper(
        TransformerWrapper(
            num_tokens=33,
            max_seq_len=24,
            attn_layers=Decoder(dim=48, depth=2, heads=4, attn_dim_head=12, rotary_pos_emb=True, use_rmsnorm=True),
        )
    )
    s, v = markov_sentences(1000, 18), markov_sentences(200, 18, seed=1)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(s), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(v), batch_size=50),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": lambda model, batch, loss_fn: model(batch[0]),
    }


@sound(
    "Mixtral with four experts, grouped-query attention and the router's auxiliary loss in the model's own loss",
    source="transformers MixtralForCausalLM",
)
def hf_mixtral_moe():
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    model = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=33,
            hidden_size=48,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            output_router_logits=True,
            router_aux_loss_coef=0.02,
            max_position_embeddings=32,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
    )
    s, v = markov_sentences(800, 16), markov_sentences(200, 16, seed=1)

    def compute_loss(model, batch, loss_fn):
        return model(input_ids=batch[0], labels=batch[0], use_cache=False).loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(s), batch_size=16, shuffle=True),
        "val_loader": DataLoader(TensorDataset(v), batch_size=50),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01),
    }


def _mlm_collate(rows):
    """15 % of the tokens: of these 80 % become [MASK] (2), 10 % a random token, 10 % stay; other labels are -100."""
    ids = torch.stack(rows)
    labels, ids = ids.clone(), ids.clone()
    chosen = torch.rand(ids.shape) < 0.15
    chosen[torch.arange(len(ids)), torch.randint(ids.shape[1], (len(ids),))] = True
    labels[~chosen] = -100
    u = torch.rand(ids.shape)
    ids[chosen & (u < 0.8)] = 2
    rand = chosen & (u >= 0.8) & (u < 0.9)
    ids[rand] = torch.randint(3, 33, ids.shape)[rand]
    return {"input_ids": ids, "labels": labels}


@sound(
    "BertForMaskedLM (tied decoder) with dynamic 80/10/10 masking in the collate function",
    source="transformers run_mlm example",
)
def hf_bert_masked_lm():
    from transformers import BertConfig, BertForMaskedLM, get_cosine_schedule_with_warmup

    torch.manual_seed(0)
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=33,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=96,
            max_position_embeddings=24,
            hidden_dropout_prob=0.05,
            attention_probs_dropout_prob=0.05,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    return {
        "model": model,
        "loader": DataLoader(list(markov_sentences(1500, 14)), batch_size=32, shuffle=True, collate_fn=_mlm_collate),
        "val_loader": DataLoader(list(markov_sentences(200, 14, seed=1)), batch_size=50, collate_fn=_mlm_collate),
        "optimizer": optimizer,
        "scheduler": get_cosine_schedule_with_warmup(optimizer, 20, 2000),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


class Captions(Dataset):
    """Digits with a caption of four tokens that names the class in one of two wordings."""

    def __init__(self, x, y, seed):
        r = np.random.RandomState(seed)
        self.x = torch.nn.functional.interpolate(x, size=(16, 16), mode="bilinear").repeat(1, 3, 1, 1)
        w = torch.tensor(r.randint(2, size=len(y)))
        filler = torch.tensor(r.randint(24, 30, size=len(y)))
        self.ids = torch.stack([torch.full_like(y, 1), filler, y + 3 + 10 * w, torch.full_like(y, 31)], 1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"pixel_values": self.x[i], "input_ids": self.ids[i], "attention_mask": torch.ones(4, dtype=torch.long)}


@sound(
    "CLIP on digits and short captions: symmetric contrastive loss with a learned temperature (several true pairs share a batch)",
    source="transformers CLIPModel, return_loss=True",
)
def hf_clip_digits():
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    (x, y), (vx, vy) = digit_tensors()
    model = CLIPModel(
        CLIPConfig(
            text_config=dict(
                vocab_size=32,
                hidden_size=48,
                intermediate_size=96,
                num_hidden_layers=1,
                num_attention_heads=4,
                max_position_embeddings=8,
                bos_token_id=1,
                eos_token_id=31,
                pad_token_id=0,
            ),
            vision_config=dict(
                hidden_size=48,
                intermediate_size=96,
                num_hidden_layers=2,
                num_attention_heads=4,
                image_size=16,
                patch_size=4,
            ),
            projection_dim=32,
        )
    )
    return {
        "model": model,
        "loader": DataLoader(Captions(x, y, 0), batch_size=16, shuffle=True, drop_last=True),
        "val_loader": DataLoader(Captions(vx, vy, 1), batch_size=16, drop_last=True),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05),
        "compute_loss": lambda model, batch, loss_fn: model(**batch, return_loss=True).loss,
    }
