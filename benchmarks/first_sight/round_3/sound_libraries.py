"""Programs around public libraries, all of them as they should be."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits, make_moons
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import sound


def _digits(image=True):
    d = load_digits()
    perm = np.random.RandomState(2).permutation(len(d.target))
    x = torch.tensor(d.images[perm] / 16.0, dtype=torch.float32)[:, None]
    y = torch.tensor(d.target[perm])
    return (x if image else x.flatten(1)), y


def _counting_text(n, length, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    start, step = torch.randint(0, vocab, (n, 1), generator=g), torch.randint(1, 4, (n, 1), generator=g)
    text = start + step * torch.arange(length)
    jumps = torch.randint(0, vocab, (n, 3), generator=g).repeat_interleave(-(-length // 3), dim=1)[:, :length]
    return (text + jumps) % vocab


@sound(
    "an exact Gaussian process: the whole training set is the one batch and the loss is the negative marginal likelihood",
    source="gpytorch",
)
def lib_gpytorch_exact() -> dict:
    import gpytorch

    torch.manual_seed(104)
    x = torch.rand(220, 2)
    y = torch.sin(6 * x[:, 0]) * x[:, 1] + 0.1 * torch.randn(220)

    class GP(gpytorch.models.ExactGP):
        def __init__(self, x, y, lik):
            super().__init__(x, y, lik)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    lik = gpytorch.likelihoods.GaussianLikelihood()
    model = GP(x, y, lik)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(lik, model)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=len(x)),
        "compute_loss": lambda model, batch, loss_fn: -mll(model(batch[0]), batch[1]),
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.05),
    }


@sound(
    "ArcFace on digit embeddings: the class centers live in the loss and are in the optimizer with a rate of their own",
    source="pytorch-metric-learning",
)
def lib_metric_arcface() -> dict:
    from pytorch_metric_learning import losses

    torch.manual_seed(105)
    x, y = _digits()
    trunk = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 32)
    )
    arcface = losses.ArcFaceLoss(num_classes=10, embedding_size=32, margin=15, scale=16)
    optimizer = torch.optim.Adam(
        [{"params": trunk.parameters()}, {"params": arcface.parameters(), "lr": 1e-2}], lr=2e-3
    )
    return {
        "model": trunk,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": arcface,
        "optimizer": optimizer,
    }


@sound(
    "LoRA adapters on a small frozen BERT, the classification head is saved and trained in full",
    source="peft, transformers",
)
def lib_peft_bert() -> dict:
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(106)
    rng = np.random.RandomState(0)
    rows = []
    for i in range(1600):
        ids = rng.randint(4, 40, rng.randint(5, 12))
        pos = int(np.sum(ids < 12) > np.sum(ids > 31))
        rows.append({"ids": [1, *ids.tolist(), 2], "label": pos})

    def collate(batch):
        width = max(len(r["ids"]) for r in batch)
        ids = torch.tensor([r["ids"] + [0] * (width - len(r["ids"])) for r in batch])
        return {
            "input_ids": ids,
            "attention_mask": (ids > 0).long(),
            "labels": torch.tensor([r["label"] for r in batch]),
        }

    config = BertConfig(
        vocab_size=40,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=16,
        num_labels=2,
        initializer_range=0.1,
    )
    model = get_peft_model(
        BertForSequenceClassification(config),
        LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.0, target_modules=["query", "value"]),
    )
    return {
        "model": model,
        "loader": DataLoader(rows[:1300], batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(rows[1300:], batch_size=50, collate_fn=collate),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
        "optimizer": torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3),
    }


@sound("a neural ODE with a fixed-step solver on two moons", source="torchdiffeq")
def lib_neural_ode() -> dict:
    from torchdiffeq import odeint

    torch.manual_seed(107)
    x, y = make_moons(1200, noise=0.1, random_state=0)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)

    class Dynamics(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 4))

        def forward(self, t, h):
            return self.net(torch.cat([h, t.expand(len(h), 1)], dim=1))

    class NeuralODE(nn.Module):
        def __init__(self):
            super().__init__()
            self.dynamics, self.head = Dynamics(), nn.Linear(4, 2)
            self.register_buffer("span", torch.linspace(0, 1, 5))

        def forward(self, x):
            h0 = F.pad(x, (0, 2))
            return self.head(odeint(self.dynamics, h0, self.span, method="rk4")[-1])

    model = NeuralODE()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound("an average of the weights kept by a library beside the trained network", source="ema-pytorch")
def lib_ema_wrapper() -> dict:
    from ema_pytorch import EMA

    torch.manual_seed(108)
    x, y = _digits()
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 24, 3),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )
    ema = EMA(net, beta=0.98, update_after_step=20, update_every=1)

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        loss = loss_fn(model["online"](images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model["average"].update()
        return loss

    return {
        "model": {"online": net, "average": ema},
        "loader": DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.05),
        "optimizer": torch.optim.Adam(net.parameters(), lr=2e-3),
        "train_step": train_step,
    }


@sound(
    "a tiny T5 that copies and reverses, labels shifted inside the model and padding at -100", source="transformers T5"
)
def lib_t5_reverse() -> dict:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(110)
    rng = np.random.RandomState(4)
    samples = [rng.randint(2, 14, rng.randint(4, 7)).tolist() for _ in range(2000)]

    def collate(batch):
        w = max(map(len, batch)) + 1
        src = torch.tensor([s + [1] + [0] * (w - len(s) - 1) for s in batch])
        tgt = torch.tensor([s[::-1] + [1] + [-100] * (w - len(s) - 1) for s in batch])
        return {"input_ids": src, "attention_mask": (src != 0).long(), "labels": tgt}

    config = T5Config(
        vocab_size=16,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config)
    return {
        "model": model,
        "loader": DataLoader(samples[:1700], batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(samples[1700:], batch_size=50, collate_fn=collate),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
    }


@sound(
    "a small ViT from the hub's classes on 8x8 digits, trained with Lion at the small rate that it needs",
    source="transformers ViT, lion-pytorch",
)
def lib_vit_lion() -> dict:
    from lion_pytorch import Lion
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(111)
    x, y = _digits()
    x = (x - 0.5) / 0.5
    config = ViTConfig(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=8,
        patch_size=2,
        num_channels=1,
        num_labels=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = ViTForImageClassification(config)
    rows = [{"pixel_values": a, "labels": b} for a, b in zip(x, y)]
    return {
        "model": model,
        "loader": DataLoader(rows[:1500], batch_size=50, shuffle=True),
        "val_loader": DataLoader(rows[1500:], batch_size=99),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
        "optimizer": Lion(model.parameters(), lr=5e-4, weight_decay=1e-2),
    }


@sound(
    "masked language modelling by hand with BERT: only the masked positions have labels",
    source="transformers BertForMaskedLM",
)
def lib_bert_mlm() -> dict:
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(113)
    seqs = _counting_text(2000, 12, 20, 3) + 3

    def collate(batch):
        ids = torch.stack(batch)
        labels = ids.clone()
        picked = torch.rand(ids.shape) < 0.2
        picked[:, 0] |= ~picked.any(1)
        labels[~picked] = -100
        return {"input_ids": ids.masked_fill(picked, 1), "attention_mask": torch.ones_like(ids), "labels": labels}

    config = BertConfig(
        vocab_size=23,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForMaskedLM(config)
    return {
        "model": model,
        "loader": DataLoader(list(seqs[:1700]), batch_size=50, shuffle=True, collate_fn=collate),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
    }
