"""Toy generative models: diffusion, flows, autoencoders, quantized codes and adversarial nets."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits, make_moons, make_swiss_roll
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import pair


def digit_vectors():
    return torch.tensor(load_digits().data / 16.0, dtype=torch.float32)


def two_moons(n, seed):
    x, _ = make_moons(n, noise=0.06, random_state=seed)
    x = (x - np.array([0.5, 0.25])) / np.array([0.87, 0.5])
    return torch.tensor(x, dtype=torch.float32)


# ---- diffusion -----------------------------------------------------------------------------------


class Denoiser(nn.Module):
    def __init__(self, dim=2, hidden=96, steps=100, whole_steps=False):
        super().__init__()
        self.steps, self.whole_steps = steps, whole_steps
        self.time = nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, hidden))
        self.inp = nn.Linear(dim, hidden)
        self.mid = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.out = nn.Linear(hidden, dim)

    def forward(self, x, t):
        if self.whole_steps:
            frac = t // self.steps
        else:
            frac = t / self.steps
        h = self.inp(x) + self.time(frac.float().unsqueeze(-1))
        return self.out(self.mid(h))


class DDPM:
    def __init__(self, steps=100, lo=1e-4, hi=0.08):
        beta = torch.linspace(lo, hi, steps)
        self.steps = steps
        self.abar = torch.cumprod(1 - beta, dim=0)


@pair(
    "the noise is scaled with (1 - abar) instead of its square root when images are perturbed",
    where="",
    source="Ryota-Kawamura/How-Diffusion-Models-Work issue 1: something wrong in L2_Training.ipynb",
    accepted=(),
)
def gen_ddpm_missing_sqrt(faulty: bool) -> dict:
    torch.manual_seed(21)
    process = DDPM()
    model = Denoiser()
    data = two_moons(2000, 0)

    def perturb_input(x, t, noise):
        ab = process.abar[t].unsqueeze(-1)
        spread = (1 - ab) if faulty else (1 - ab).sqrt()
        return ab.sqrt() * x + spread * noise

    def compute_loss(model, batch, loss_fn):
        (x,) = batch
        t = torch.randint(0, process.steps, (len(x),))
        noise = torch.randn_like(x)
        return loss_fn(model(perturb_input(x, t, noise), t), noise)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(data), batch_size=128, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


@pair(
    "the time step is divided with //, so the network is always told t = 0",
    where="time",
    source="forum thread on integer division when time steps are normalized for a diffusion model's embedding",
    accepted=("inputs-ignored", "truncated-inputs", "constant-inputs"),
)
def gen_time_floor(faulty: bool) -> dict:
    torch.manual_seed(22)
    process = DDPM(steps=200, hi=0.05)
    roll, _ = make_swiss_roll(2000, noise=0.2, random_state=0)
    data = torch.tensor(roll[:, [0, 2]] / 8.0, dtype=torch.float32)
    model = Denoiser(steps=200, whole_steps=faulty)

    def compute_loss(model, batch, loss_fn):
        x = batch[0]
        t = torch.randint(0, process.steps, (x.shape[0],))
        ab = process.abar[t][:, None]
        eps = torch.randn_like(x)
        return ((model(ab.sqrt() * x + (1 - ab).sqrt() * eps, t) - eps) ** 2).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(data), batch_size=100, shuffle=True),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
    }


# ---- flows ---------------------------------------------------------------------------------------


class AffineCoupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = 2 * torch.tanh(s / 2)
        b = (b - t) * torch.exp(-s)
        x = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return x, -s.sum(1)


class ActNorm(nn.Module):
    def __init__(self, dim=2):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return (x - self.bias) * torch.exp(-self.log_scale), -self.log_scale.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, flips, sign=1.0):
        super().__init__()
        self.layers = nn.ModuleList(m for f in flips for m in (AffineCoupling(f), ActNorm()))
        self.sign = sign

    def forward(self, x):
        logdet = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        prior = -0.5 * (x**2).sum(1) - math.log(2 * math.pi)
        return prior + self.sign * logdet


def negative_log_likelihood(model, batch, loss_fn):
    return -model(batch[0]).mean()


def _flow_setup(model):
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(two_moons(2000, 1)), batch_size=100, shuffle=True),
        "val_loader": DataLoader(TensorDataset(two_moons(500, 2)), batch_size=100),
        "compute_loss": negative_log_likelihood,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


@pair(
    "the log determinant is subtracted where it has to be added: squeezing everything to zero makes the likelihood unbounded",
    where="",
    source="VincentStimper/normalizing-flows issue 27, danielward27/flowjax issue 208: wrong sign of the log determinant",
    accepted=("loss-unbounded-below", "loss-sign-flipped"),
)
def gen_flow_logdet(faulty: bool) -> dict:
    torch.manual_seed(23)
    return _flow_setup(Flow([False, True] * 3, sign=-1.0 if faulty else 1.0))


@pair(
    "every coupling layer passes on the same half, so one coordinate is only ever rescaled",
    where="layers",
    source="forum threads about RealNVP re-implementations with a mask that does not alternate",
    accepted=(),
)
def gen_flow_same_half(faulty: bool) -> dict:
    torch.manual_seed(24)
    flips = [False] * 6 if faulty else [i % 2 == 1 for i in range(6)]
    return _flow_setup(Flow(flips))


# ---- variational and quantized autoencoders --------------------------------------------------------


class DigitVAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
        self.mu, self.logvar = nn.Linear(96, latent), nn.Linear(96, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        return self.dec(z), mu, logvar, std


def kl_gauss(mu, logvar):
    return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)


@pair(
    "the standard deviation is passed to the KL term, which expects a log variance and takes its exponential again",
    where="",
    source="sutaoyu/IBMEA issue 2: std passed into _kld_gauss, exponential applied twice",
    accepted=(),
)
def gen_vae_double_exp(faulty: bool) -> dict:
    torch.manual_seed(25)
    model = DigitVAE()
    x = digit_vectors()

    def compute_loss(model, batch, loss_fn):
        (img,) = batch
        logits, mu, logvar, std = model(img)
        rec = F.binary_cross_entropy_with_logits(logits, img, reduction="none").sum(1)
        kld = kl_gauss(mu, std if faulty else logvar)
        return (rec + kld).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1500]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1500:]), batch_size=64),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


class Quantizer(nn.Module):
    def __init__(self, codes=64, dim=8):
        super().__init__()
        self.codebook = nn.Embedding(codes, dim)
        nn.init.uniform_(self.codebook.weight, -0.5, 0.5)

    def forward(self, z):
        dist = torch.cdist(z, self.codebook.weight)
        code = self.codebook(dist.argmin(-1))
        return z + (code - z).detach(), code


class VQAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
        self.vq = Quantizer()
        self.decoder = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, x):
        z_e = self.encoder(x).view(-1, 4, 8)
        z_q, code = self.vq(z_e)
        return self.decoder(z_q.flatten(1)), z_e, z_q, code


@pair(
    "the codebook loss is computed on the straight-through output, so the codebook gets no gradient from any term",
    where="vq.codebook.weight",
    source="showlab/Olaf-World issue 8 and andylolu2/jax-vqvae-gpt issue 2: codebook loss on the straight-through output",
    accepted=("untrained-parameters",),
)
def gen_vq_straight_through(faulty: bool) -> dict:
    torch.manual_seed(26)
    model = VQAutoencoder()
    x = digit_vectors()

    def compute_loss(model, batch, loss_fn):
        img = batch[0]
        recon, z_e, z_q, code = model(img)
        picked = z_q if faulty else code
        codebook_loss = F.mse_loss(picked, z_e.detach())
        commitment = F.mse_loss(z_e, code.detach())
        return F.mse_loss(recon, img) + codebook_loss + 0.25 * commitment

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1500]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1500:]), batch_size=64),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ---- adversarial -----------------------------------------------------------------------------------


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


@pair(
    "the generator's gradients are cleared twice and the critic's never: the critic steps with the generator's objective added to its own",
    where="D",
    source="forum threads about GAN loops that call netG.zero_grad() where netD.zero_grad() is meant",
    accepted=("gradients-leak-between-optimizers", "accumulated-gradients"),
)
def gen_gan_zero_grad(faulty: bool) -> dict:
    torch.manual_seed(27)
    nets = {"G": mlp(4, 64, 64, 2), "D": mlp(2, 64, 64, 1)}
    opts = {
        "G": torch.optim.Adam(nets["G"].parameters(), lr=1e-3, betas=(0.5, 0.99)),
        "D": torch.optim.Adam(nets["D"].parameters(), lr=1e-3, betas=(0.5, 0.99)),
    }
    first = "G" if faulty else "D"

    def train_step(nets, batch, loss_fn, opts):
        real = batch[0]
        n = len(real)
        nets[first].zero_grad()
        fake = nets["G"](torch.randn(n, 4))
        loss_d = loss_fn(nets["D"](real), torch.ones(n, 1)) + loss_fn(nets["D"](fake.detach()), torch.zeros(n, 1))
        loss_d.backward()
        opts["D"].step()

        nets["G"].zero_grad()
        loss_g = loss_fn(nets["D"](fake), torch.ones(n, 1))
        loss_g.backward()
        opts["G"].step()
        return loss_d.detach() + loss_g.detach()

    return {
        "model": nets,
        "loader": DataLoader(TensorDataset(two_moons(2000, 3)), batch_size=100, shuffle=True, drop_last=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": opts,
        "train_step": train_step,
    }


@pair(
    "the gradient penalty is computed without create_graph, so it has a value but no gradient",
    where="",
    source="forum threads about WGAN-GP: autograd.grad(..., retain_graph=True) without create_graph",
    accepted=("missing-create-graph",),
)
def gen_wgan_penalty(faulty: bool) -> dict:
    torch.manual_seed(28)
    critic, gen = mlp(2, 64, 64, 1), mlp(4, 64, 64, 2)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_g = torch.optim.Adam(gen.parameters(), lr=3e-4, betas=(0.5, 0.9))
    grad_kwargs = {"retain_graph": True} if faulty else {"create_graph": True}

    def penalty(critic, real, fake):
        eps = torch.rand(len(real), 1)
        mid = (eps * real + (1 - eps) * fake).requires_grad_(True)
        (grad,) = torch.autograd.grad(critic(mid).sum(), mid, **grad_kwargs)
        return ((grad.norm(2, dim=1) - 1) ** 2).mean()

    def train_step(model, batch, loss_fn, optimizer):
        gen, critic = model
        opt_g, opt_c = optimizer
        real = batch[0]
        for _ in range(4):
            fake = gen(torch.randn(len(real), 4)).detach()
            loss_c = critic(fake).mean() - critic(real).mean() + 2.0 * penalty(critic, real, fake)
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()
        loss_g = -critic(gen(torch.randn(len(real), 4))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        return loss_c.detach()

    return {
        "model": [gen, critic],
        "loader": DataLoader(TensorDataset(two_moons(2000, 4)), batch_size=100, shuffle=True, drop_last=True),
        "optimizer": [opt_g, opt_c],
        "train_step": train_step,
    }
