"""Image models and generative models with one fault each, after real issues."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1.fdev_data import blobs_masks, digits_images

# -- diffusion against the noisy sample ---------------------------------------------------------------------------------


class Denoiser(nn.Module):
    """Predicts x_start from the noisy sample and the time step (an MLP as for trajectories)."""

    def __init__(self, dim=64, width=160, steps=50):
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(steps, 32), nn.Linear(32, width), nn.Mish())
        self.inp, self.mid, self.out = nn.Linear(dim, width), nn.Linear(width, width), nn.Linear(width, dim)

    def forward(self, x, t):
        h = F.mish(self.inp(x)) + self.time(t)
        return self.out(F.mish(self.mid(h)) + h)


@pair(
    "the diffusion loss compares the predicted x_start with the noisy input instead of with the clean sample, so the identity wins",
    where="compute_loss",
    source="irom-princeton/dppo#14",
    accepted=("unshifted-targets",),
)
def diffusion_target_is_noisy_input(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, _), (vx, _) = digits_images()
    x, vx = x.flatten(1), vx.flatten(1)
    betas = torch.linspace(1e-3, 0.15, 50)
    alpha_bar = torch.cumprod(1 - betas, 0)
    model = Denoiser()

    def compute_loss(model, batch, loss_fn):
        x_start = batch[0]
        t = torch.randint(0, 50, (len(x_start),))
        a = alpha_bar[t].unsqueeze(1)
        noise = torch.randn_like(x_start)
        x_noisy = a.sqrt() * x_start + (1 - a).sqrt() * noise
        x_recon = model(x_noisy, t)
        return loss_fn(x_recon, x_noisy if broken else x_start)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx), batch_size=100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


# -- distillation of the teacher into itself -----------------------------------------------------------------------------


class Distiller(nn.Module):
    """A student with its trained, frozen teacher aboard."""

    def __init__(self, teacher):
        super().__init__()
        self.teacher = teacher.requires_grad_(False).eval()
        self.student = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x):
        return self.student(x)


@pair(
    "the distillation term takes the teacher's logits on both sides (the student's output is never used): it is constant and only the hard labels teach",
    where="compute_loss",
    source="labmlai/annotated_deep_learning_paper_implementations#66",
)
def distillation_teacher_vs_teacher(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images()
    teacher = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for _ in range(10):
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(teacher(xb), yb).backward()
            opt.step()
    model = Distiller(teacher)
    T, alpha = 5.0, 0.97

    def compute_loss(model, batch, loss_fn):
        xb, yb = batch
        with torch.no_grad():
            large_logits = model.teacher(xb)
        output = model(xb)
        soft_targets = F.softmax(large_logits / T, dim=-1)
        soft_prob = F.log_softmax((large_logits if broken else output) / T, dim=-1)
        soft_loss = F.kl_div(soft_prob, soft_targets, reduction="batchmean") * T * T
        return alpha * soft_loss + (1 - alpha) * loss_fn(output, yb)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.student.parameters(), lr=0.03, momentum=0.9),
        "compute_loss": compute_loss,
    }


# -- margin head outside the optimizer ------------------------------------------------------------------------------------


@pair(
    "ArcFaceLoss keeps the class centres W as parameters of its own, and they are not given to any optimizer: they stay random",
    where="loss_fn.W",
    source="4uiiurz1/pytorch-adacos#10; pytorch-metric-learning docs (ArcFaceLoss requires an optimizer)",
    accepted=("parameters-missing-from-optimizer",),
)
def arcface_centres_not_optimized(broken: bool) -> dict:
    from pytorch_metric_learning.losses import ArcFaceLoss

    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 3)
    )
    loss_fn = ArcFaceLoss(num_classes=10, embedding_size=3, margin=20, scale=16)
    params = list(model.parameters()) + ([] if broken else list(loss_fn.parameters()))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=128),
        "loss_fn": loss_fn,
        "optimizer": torch.optim.Adam(params, lr=3e-3),
    }


# -- VAE with mean and sum -------------------------------------------------------------------------------------------------


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, latent), nn.Linear(128, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


@pair(
    "reconstruction error is averaged over pixels and batch but the KL term is summed over both: the KL wins and the posterior collapses",
    where="loss_fn",
    source="zdebruine/MMVAE pull request 19",
    accepted=("loss-terms-reduced-differently", "loss-sums-over-batch", "loss-terms-unbalanced"),
)
def vae_mean_recon_sum_kl(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, _), (vx, _) = digits_images()
    x, vx = x.flatten(1), vx.flatten(1)
    model = VAE()

    def elbo(out, target):
        recon, mu, logvar = out
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        if broken:
            return F.mse_loss(recon, target) + kl
        return (F.mse_loss(recon, target, reduction="sum") + kl) / len(target)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx), batch_size=100),
        "loss_fn": elbo,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0]), batch[0]),
    }


# -- sigmoid twice in a U-Net ------------------------------------------------------------------------------------------------


class TinyUNet(nn.Module):
    def __init__(self, sigmoid):
        super().__init__()
        from monai.networks.nets import UNet

        self.net = UNet(
            spatial_dims=2, in_channels=1, out_channels=1, channels=(8, 16, 32), strides=(2, 2), num_res_units=1
        )
        self.final = nn.Sigmoid() if sigmoid else nn.Identity()

    def forward(self, x):
        return self.final(self.net(x))


@pair(
    "the U-Net ends in a sigmoid and is trained with BCEWithLogitsLoss, which applies another one",
    where="final",
    source="avBuffer/UNet3plus_pth#23",
    accepted=("sigmoid-before-bce-with-logits",),
)
def unet_sigmoid_and_bce_logits(broken: bool) -> dict:
    torch.manual_seed(0)
    x, m = blobs_masks(320)
    vx, vm = blobs_masks(64, seed=1)
    model = TinyUNet(sigmoid=broken)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, m), batch_size=8, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vm), batch_size=16),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# -- generator step on detached fakes -------------------------------------------------------------------------------------------


class GAN(nn.Module):
    def __init__(self, z=2):
        super().__init__()
        self.z = z
        self.generator = nn.Sequential(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.discriminator = nn.Sequential(
            nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
        )

    def forward(self, z):
        return self.generator(z)


@pair(
    "in the generator's step the fakes are detached before the discriminator, so no gradient ever reaches the generator",
    where="generator",
    source="nikhilsinghmus/image2reverb#37; wangle53/CSA-CDGAN#5",
    accepted=("untrained-parameters", "optimizer-without-effect"),
)
def gan_generator_detached(broken: bool) -> dict:
    torch.manual_seed(0)
    angle = torch.rand(1200) * 6.2832
    real = torch.stack([angle.cos(), angle.sin()], 1) * 1.5 + 0.1 * torch.randn(1200, 2) + 1.0
    model = GAN()
    optimizer = torch.optim.Adam(
        [
            {"params": model.generator.parameters(), "lr": 1e-3},
            {"params": model.discriminator.parameters(), "lr": 1e-3},
        ],
        betas=(0.5, 0.999),
    )

    def train_step(model, batch, loss_fn, optimizer):
        xb = batch[0]
        one, zero = torch.ones(len(xb), 1), torch.zeros(len(xb), 1)
        fake = model(torch.randn(len(xb), model.z))
        optimizer.zero_grad()
        d_loss = loss_fn(model.discriminator(xb), one) + loss_fn(model.discriminator(fake.detach()), zero)
        d_loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.discriminator.requires_grad_(False)
        g_loss = loss_fn(model.discriminator(fake.detach() if broken else fake), one)
        if g_loss.requires_grad:
            g_loss.backward()
            optimizer.step()
        model.discriminator.requires_grad_(True)
        return d_loss.detach() + g_loss.detach()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(real), batch_size=64, shuffle=True, drop_last=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }
