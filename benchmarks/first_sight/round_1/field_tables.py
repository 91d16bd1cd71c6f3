"""Deep tabular models: rtdl_revisiting_models, tabm, rtdl_num_embeddings."""

from __future__ import annotations

import torch
import torch.nn as nn
from sklearn.datasets import make_friedman1
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_1.fdev_data import breast_cancer


class FTBinary(nn.Module):
    """Logit of an FT-Transformer on continuous features only."""

    def __init__(self, n):
        from rtdl_revisiting_models import FTTransformer

        super().__init__()
        self.ft = FTTransformer(
            n_cont_features=n,
            cat_cardinalities=[],
            d_out=1,
            n_blocks=2,
            d_block=32,
            attention_n_heads=4,
            attention_dropout=0.1,
            ffn_d_hidden=None,
            ffn_d_hidden_multiplier=4 / 3,
            ffn_dropout=0.1,
            residual_dropout=0.0,
        )

    def forward(self, x):
        return self.ft(x, None).squeeze(-1)


@sound("FT-Transformer on breast cancer, make_parameter_groups, AdamW", source="rtdl_revisiting_models README")
def rtdl_ft_transformer():
    torch.manual_seed(0)
    (x, y), (vx, vy) = breast_cancer()
    model = FTBinary(x.shape[1])
    optimizer = torch.optim.AdamW(model.ft.make_parameter_groups(), lr=3e-4, weight_decay=1e-5)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y.float()), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy.float()), batch_size=64),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optimizer,
    }


@sound("TabM: k predictions per object, each with its own loss (not the loss of their mean)", source="tabm README")
def tabm_k_heads():
    from tabm import TabM

    torch.manual_seed(0)
    f, t = make_friedman1(1400, n_features=8, noise=1.0, random_state=3)
    f, t = (f - f[:1100].mean(0)) / f[:1100].std(0), (t - t[:1100].mean()) / t[:1100].std()
    x, y = torch.tensor(f, dtype=torch.float32), torch.tensor(t, dtype=torch.float32)
    x, vx, y, vy = x[:1100], x[1100:], y[:1100], y[1100:]
    model = TabM.make(n_num_features=x.shape[1], d_out=1, k=8, d_block=64, n_blocks=2)

    def compute_loss(model, batch, loss_fn):
        xb, yb = batch
        pred = model(xb, None).squeeze(-1)  # (batch, k)
        return loss_fn(pred.flatten(0, 1), yb.repeat_interleave(pred.shape[1]))

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=3e-4),
        "compute_loss": compute_loss,
    }


class PeriodicQuantiles(nn.Module):
    def __init__(self, n, quantiles):
        from rtdl_num_embeddings import PeriodicEmbeddings

        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))
        self.embed = PeriodicEmbeddings(n, 8, lite=False)
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(8 * n, 96), nn.ReLU(), nn.Dropout(0.05), nn.Linear(96, len(quantiles))
        )

    def forward(self, x):
        return self.body(self.embed(x))


class Pinball(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, pred, target):
        e = target.unsqueeze(-1) - pred
        return torch.maximum(self.q * e, (self.q - 1) * e).mean()


@sound(
    "three quantiles with the pinball loss on periodic feature embeddings; four micro-batches per step, divided by four",
    source="rtdl_num_embeddings README; quantile regression",
)
def periodic_quantile_accumulated():
    torch.manual_seed(0)
    x, y = make_friedman1(1200, n_features=6, noise=1.0, random_state=0)
    x = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32)
    y = torch.tensor((y - y[:1000].mean()) / y[:1000].std(), dtype=torch.float32)
    quantiles = [0.1, 0.5, 0.9]
    model = PeriodicQuantiles(6, quantiles)

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        optimizer.zero_grad()
        total = 0.0
        for xb, yb in zip(batch[0].chunk(4), batch[1].chunk(4)):
            loss = loss_fn(model(xb), yb) / 4
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=100),
        "loss_fn": Pinball(quantiles),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4),
        "train_step": train_step,
    }
