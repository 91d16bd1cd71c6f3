"""Faults in self-supervision, quantisation, survival, Gaussian processes and loops, after real issues."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_2.fheld_data import digit_tensors, survival

# -- codebook loss on the straight-through output -------------------------------------------------------------------------


class VectorQuantizer(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.codebook = nn.Embedding(codes, dim)
        nn.init.uniform_(self.codebook.weight, -1 / codes, 1 / codes)

    def forward(self, x):
        index = torch.cdist(x, self.codebook.weight).argmin(-1)
        z = self.codebook(index)
        z_q = x + (z - x).detach()
        return z_q, z, index


class VQVAE(nn.Module):
    def __init__(self, codes=64, dim=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, dim))
        self.vq = VectorQuantizer(codes, dim)
        self.dec = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        z_e = self.enc(x)
        z_q, z, index = self.vq(z_e)
        return self.dec(z_q), z_q, z, z_e


@pair(
    "the codebook loss is taken on the straight-through output, where the looked-up vector is detached: the codebook never gets a gradient, and the term drives the encoder away from it",
    where="vq.codebook.weight",
    source="showlab/Olaf-World#8",
    accepted=("untrained-parameters",),
)
def vq_codebook_loss_on_straight_through(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, _), (vx, _) = digit_tensors()
    patches = lambda v: v.unfold(2, 4, 4).unfold(3, 4, 4).reshape(len(v), 4, 16)

    def compute_loss(model, batch, loss_fn):
        recon, z_q, z, z_e = model(batch[0])
        codebook_loss = loss_fn(z_q if broken else z, z_e.detach())
        commitment = loss_fn(z_e, z.detach())
        return loss_fn(recon, batch[0]) + codebook_loss + 0.25 * commitment

    model = VQVAE()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(patches(x)), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(patches(vx)), batch_size=100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


# -- SimSiam without the stop ------------------------------------------------------------------------------------------------


class SimSiam(nn.Module):
    def __init__(self):
        from lightly.models.modules import SimSiamPredictionHead, SimSiamProjectionHead

        super().__init__()
        self.backbone = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64)
        )
        self.projection_head = SimSiamProjectionHead(64, 64, 32)
        self.prediction_head = SimSiamPredictionHead(32, 16, 32)

    def forward(self, x):
        z = self.projection_head(self.backbone(x))
        return z, self.prediction_head(z)


class NoisyPairs(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        dy, dx = np.random.randint(-1, 2, size=2)
        return x + 0.15 * torch.randn_like(x), torch.roll(x, (int(dy), int(dx)), (-2, -1)) + 0.15 * torch.randn_like(x)


@pair(
    "SimSiam without the stop-gradient: the projections are not detached and both branches agree on a constant",
    where="compute_loss",
    source="PatrickHua/SimSiam#39; lightly-ai/lightly#559",
)
def simsiam_no_stop_gradient(broken: bool) -> dict:
    from lightly.loss import NegativeCosineSimilarity

    torch.manual_seed(0)
    np.random.seed(0)
    (x, _), (vx, _) = digit_tensors()

    def compute_loss(model, batch, loss_fn):
        (z0, p0), (z1, p1) = model(batch[0]), model(batch[1])
        if not broken:
            z0, z1 = z0.detach(), z1.detach()
        return 0.5 * (loss_fn(z0, p1) + loss_fn(z1, p0))

    model = SimSiam()
    return {
        "model": model,
        "loader": DataLoader(NoisyPairs(x), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(NoisyPairs(vx), batch_size=64, drop_last=True),
        "loss_fn": NegativeCosineSimilarity(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4),
        "compute_loss": compute_loss,
    }


# -- events as an index ---------------------------------------------------------------------------------------------------------


@pair(
    "the Cox partial likelihood is indexed with the 0/1 event column as integers, so only the first two subjects of the sorted batch count",
    where="loss_fn",
    source="Novartis/torchsurv#117, #141",
)
def cox_event_used_as_index(broken: bool) -> dict:
    torch.manual_seed(0)
    x, t, e = survival(1200)
    vx, vt, ve = survival(300, 1)
    model = nn.Sequential(
        nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1, bias=False)
    )

    def neg_partial_log_likelihood(log_hz, event, time):
        order = time.argsort()
        log_hz, event = log_hz.squeeze(-1)[order], event[order]
        log_denominator = torch.logcumsumexp(log_hz.flip(0), 0).flip(0)
        pll = log_hz - log_denominator
        chosen = pll[event.long()] if broken else pll[event]
        return -chosen.mean()

    def compute_loss(model, batch, loss_fn):
        return loss_fn(model(batch[0]), batch[2], batch[1])

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, t, e), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vt, ve), batch_size=100),
        "loss_fn": neg_partial_log_likelihood,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


# -- rounding without a straight-through estimator ----------------------------------------------------------------------------------


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class QuantLinear(nn.Linear):
    """Weights on a symmetric grid of 4 bits, full-precision copy kept for training."""

    def __init__(self, n, m, ste):
        super().__init__(n, m)
        self.ste = ste

    def forward(self, x):
        scale = self.weight.detach().abs().max() / 7
        q = self.weight / scale
        q = (RoundSTE.apply(q) if self.ste else q.round()).clamp(-7, 7)
        return F.linear(x, q * scale, self.bias)


@pair(
    "quantisation-aware training rounds the weights without a straight-through estimator: round has zero gradient and the weights stay put",
    where="1.weight",
    source="pytorch/ao pull request 4806; calad0i/HGQ2#13",
    accepted=("untrained-parameters",),
)
def qat_round_without_ste(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = digit_tensors()
    model = nn.Sequential(
        nn.Flatten(),
        QuantLinear(64, 96, not broken),
        nn.BatchNorm1d(96),
        nn.ReLU(),
        QuantLinear(96, 96, not broken),
        nn.BatchNorm1d(96),
        nn.ReLU(),
        nn.Linear(96, 10),
    )
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=48, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# -- ELBO with the size of the batch -----------------------------------------------------------------------------------------------------


def _svgp_class():
    import gpytorch

    class SVGP(gpytorch.models.ApproximateGP):
        def __init__(self, inducing):
            q = gpytorch.variational.CholeskyVariationalDistribution(inducing.size(0))
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, q, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))
            self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    return SVGP


@pair(
    "VariationalELBO is given the batch size as num_data, so the KL term weighs dozens of times too much and the GP underfits",
    where="loss_fn",
    source="cornellius-gp/gpytorch#518",
    accepted=("loss-terms-unbalanced",),
)
def svgp_num_data_is_batch_size(broken: bool) -> dict:
    import gpytorch

    torch.manual_seed(0)
    r = np.random.RandomState(0)
    x = torch.tensor(r.uniform(-2, 2, (1500, 2)), dtype=torch.float32)
    y = (
        torch.sin(2.5 * x[:, 0]) * torch.cos(2 * x[:, 1])
        + 0.3 * x[:, 0]
        + 0.15 * torch.tensor(r.normal(size=1500), dtype=torch.float32)
    )
    batch_size = 25
    model = _svgp_class()(x[:40].clone())
    elbo = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=batch_size if broken else 1200)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size=batch_size, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=100),
        "loss_fn": lambda out, target: -elbo(out, target),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


# -- eval mode left on by a helper ---------------------------------------------------------------------------------------------------------


class CounterNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for width in (16, 24, 32, 32):
            layers += [nn.Conv2d(c, width, 3, padding=1, stride=2 if c > 1 else 1), nn.BatchNorm2d(width), nn.ReLU()]
            c = width
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2))
        self.out = nn.Linear(c, 5)

    def forward(self, x):
        return self.out(self.features(x))


def _counts(n, seed=0):
    """Pictures of 0 to 4 bright spots, values between 0 and 1, and how many there are."""
    r = np.random.RandomState(seed)
    y = r.randint(5, size=n)
    x = r.normal(60, 12, (n, 1, 24, 24))
    for i, k in enumerate(y):
        for s in r.choice(16, k, replace=False):
            a, b = divmod(s, 4)
            x[i, 0, 6 * a + 1 : 6 * a + 5, 6 * b + 1 : 6 * b + 5] += 110
    return torch.tensor(x / 255, dtype=torch.float32), torch.tensor(y)


@pair(
    "a helper that is called inside the training step puts the model into eval mode and it stays there: batch norm never sees its own statistics",
    where="train_step",
    source="ServiceNow/LCFCN#20; fartashf/vsepp#4; joeynmt/joeynmt#184",
    accepted=("left-in-eval-mode", "batchnorm-misused"),
)
def helper_leaves_eval_mode(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = _counts(1200), _counts(300, 1)
    model = CounterNet()

    def predicted_counts(model, xb):
        model.eval()
        with torch.no_grad():
            counts = model(xb).argmax(1)
        if not broken:
            model.train()
        return counts

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        xb, yb = batch
        missed = predicted_counts(model, xb) != yb  # samples miscounted now weigh more
        out = model(xb)
        loss = loss_fn(out, yb)
        if missed.any():
            loss = loss + 0.3 * loss_fn(out[missed], yb[missed])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
        "train_step": train_step,
    }
