"""Densities, Gaussian processes, VAEs, differential equations, spikes and CRFs."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import make_moons
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_1.fdev_data import digits_images


@sound(
    "neural spline flow; the model returns a distribution and the loss is its negative log-likelihood (may go below zero)",
    source="zuko README",
)
def zuko_spline_flow():
    import zuko

    torch.manual_seed(0)
    x, y = make_moons(1200, noise=0.07, random_state=0)
    x, c = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32).unsqueeze(1)
    model = zuko.flows.NSF(features=2, context=1, transforms=3, hidden_features=(48, 48))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, c), batch_size=64, shuffle=True),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": lambda model, batch, loss_fn: -model(batch[1]).log_prob(batch[0]).mean(),
    }


def _exact_gp_class():
    import gpytorch

    class ExactGP(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    return ExactGP


@sound(
    "exact Gaussian process trained on its whole training set with the marginal likelihood; lr 0.1 with Adam",
    source="gpytorch simple GP regression tutorial",
)
def gpytorch_exact_gp():
    import gpytorch

    torch.manual_seed(0)
    x = torch.linspace(0, 1, 200)
    y = torch.sin(x * 6 * np.pi) + 0.5 * x + 0.2 * torch.randn(200)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = _exact_gp_class()(x, y, likelihood)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=200),
        "loss_fn": lambda out, target: -mll(out, target),
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.1),
    }


class NamedImages(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"data": self.x[i]}


@sound(
    "pythae VAE; dict batches, the model returns recon_loss, reg_loss and loss summed over pixels",
    source="pythae README",
)
def pythae_vae():
    from pythae.models import VAE, VAEConfig

    torch.manual_seed(0)
    (x, _), (vx, _) = digits_images()
    x, vx = x * 0.35 + 0.3, vx * 0.35 + 0.3
    model = VAE(VAEConfig(input_dim=(1, 8, 8), latent_dim=6, reconstruction_loss="bce"))
    return {
        "model": model,
        "loader": DataLoader(NamedImages(x), batch_size=50, shuffle=True),
        "val_loader": DataLoader(NamedImages(vx), batch_size=50),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": lambda model, batch, loss_fn: model(batch).loss,
    }


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


class NeuralODE(nn.Module):
    def __init__(self, t):
        super().__init__()
        self.func = ODEFunc()
        self.register_buffer("t", t)

    def forward(self, y0):
        from torchdiffeq import odeint

        return odeint(self.func, y0, self.t, method="rk4").transpose(0, 1)  # (batch, time, 2)


@sound(
    "neural ODE on a cubic spiral: pieces of the trajectory from their starting points, RMSprop and L1 as in the demo",
    source="torchdiffeq examples/ode_demo.py",
)
def torchdiffeq_spiral():
    from torchdiffeq import odeint

    torch.manual_seed(0)
    a = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    t = torch.linspace(0.0, 25.0, 1000)
    with torch.no_grad():
        path = odeint(lambda _, y: (y**3) @ a, torch.tensor([[2.0, 0.0]]), t, method="rk4")[:, 0]
    starts = torch.randperm(980)[:600]
    pieces = torch.stack([path[s : s + 10] for s in starts.tolist()])
    model = NeuralODE(t[:10])
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(pieces[:, 0], pieces), batch_size=40, shuffle=True),
        "loss_fn": nn.L1Loss(),
        "optimizer": torch.optim.RMSprop(model.parameters(), lr=2e-3),
    }


class SpikingNet(nn.Module):
    def __init__(self, steps=10):
        import snntorch as snn

        super().__init__()
        self.steps = steps
        self.fc1, self.lif1 = nn.Linear(64, 128), snn.Leaky(beta=0.9)
        self.fc2, self.lif2 = nn.Linear(128, 10), snn.Leaky(beta=0.9)

    def forward(self, x):
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes = []
        for _ in range(self.steps):
            s1, mem1 = self.lif1(self.fc1(x), mem1)
            s2, mem2 = self.lif2(self.fc2(s1), mem2)
            spikes.append(s2)
        return torch.stack(spikes)  # (time, batch, classes)


@sound(
    "leaky integrate-and-fire network, spikes over ten steps, cross-entropy on firing rates",
    source="snntorch tutorial 5",
)
def snntorch_lif_digits():
    import snntorch.functional as SF

    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images()
    x, vx = x.flatten(1) * 0.35 + 0.3, vx.flatten(1) * 0.35 + 0.3
    model = SpikingNet()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=64),
        "loss_fn": SF.ce_rate_loss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.999)),
    }


def _tagged(n, seed=0):
    """0 outside, 1 begins and 2 continues an entity: tokens 40-49 open one, it goes on for the next 1-3 tokens below 20."""
    r = np.random.RandomState(seed)
    rows = []
    for _ in range(n):
        length, toks, tags = r.randint(8, 18), [], []
        while len(toks) < length:
            if r.rand() < 0.25:
                k = r.randint(1, 4)
                toks += [r.randint(40, 50)] + r.randint(5, 20, k).tolist()
                tags += [1] + [2] * k
                toks.append(r.randint(20, 40)), tags.append(0)
            else:
                toks.append(r.randint(5, 40)), tags.append(0)
        rows.append((toks, tags))
    return rows


def _collate_tags(rows):
    ids = pad_sequence([torch.tensor(t) for t, _ in rows], batch_first=True)
    tags = pad_sequence([torch.tensor(t) for _, t in rows], batch_first=True)
    return {"tokens": ids, "tags": tags, "mask": ids != 0}


class BiLSTMCRF(nn.Module):
    def __init__(self, vocab=50, tags=3, width=32):
        from torchcrf import CRF

        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.emit = nn.Linear(2 * width, tags)
        self.crf = CRF(tags, batch_first=True)

    def forward(self, tokens, mask, tags=None):
        emissions = self.emit(self.lstm(self.embed(tokens))[0])
        if tags is None:
            return self.crf.decode(emissions, mask)
        return -self.crf(emissions, tags, mask, reduction="token_mean")


@sound("BiLSTM-CRF tagger; the model returns its own loss, or with no tags a list of paths", source="pytorch-crf docs")
def torchcrf_bilstm_tagger():
    torch.manual_seed(0)
    model = BiLSTMCRF()
    return {
        "model": model,
        "loader": DataLoader(_tagged(800), batch_size=32, shuffle=True, collate_fn=_collate_tags),
        "val_loader": DataLoader(_tagged(200, 1), batch_size=50, collate_fn=_collate_tags),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "compute_loss": lambda model, batch, loss_fn: model(batch["tokens"], batch["mask"], batch["tags"]),
    }
