"""Self-supervision and generation on small pictures: MAE, SimCLR, VQ-VAE, DDPM, GAN, SIREN."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import sound
from benchmarks.first_sight.round_2.fheld_data import digit_tensors


def sincos_2d(side, dim):
    """Fixed 2-d sine-cosine position embedding with a zero row for [CLS], as in the MAE code."""
    omega = 1.0 / 10000 ** (torch.arange(dim // 4) / (dim / 4.0))
    axis = torch.arange(side).float()[:, None] * omega
    one = torch.cat([axis.sin(), axis.cos()], 1)  # (side, dim / 2)
    grid = torch.cat([one[:, None].expand(-1, side, -1), one[None].expand(side, -1, -1)], -1).reshape(side * side, dim)
    return torch.cat([torch.zeros(1, dim), grid])[None]


@sound(
    "ViT masked autoencoder: the model masks at random and returns the error on the masked patches; frozen sine-cosine positions",
    source="transformers ViTMAEForPreTraining",
)
def hf_vit_mae():
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    torch.manual_seed(0)
    (x, _), (vx, _) = digit_tensors(size=16)
    x, vx = (x - 0.3) / 0.35, (vx - 0.3) / 0.35
    model = ViTMAEForPreTraining(
        ViTMAEConfig(
            image_size=16,
            patch_size=4,
            num_channels=1,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=96,
            decoder_hidden_size=32,
            decoder_num_hidden_layers=1,
            decoder_num_attention_heads=4,
            decoder_intermediate_size=64,
            mask_ratio=0.5,
            norm_pix_loss=False,
        )
    )
    with (
        torch.no_grad()
    ):  # transformers 5.23 leaves both position embeddings at zero when the model is built from a config
        model.vit.embeddings.position_embeddings.copy_(sincos_2d(4, 48))
        model.decoder.decoder_pos_embed.copy_(sincos_2d(4, 32))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=48, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx), batch_size=100),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.05),
        "compute_loss": lambda model, batch, loss_fn: model(pixel_values=batch[0]).loss,
    }


class TwoViews(Dataset):
    """([view 0, view 1], label), as lightly's datasets give them."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def view(self, x):
        dy, dx = np.random.randint(-1, 2, size=2)
        x = torch.roll(x, (int(dy), int(dx)), (-2, -1))
        return (x + 0.1 * torch.randn_like(x)) * float(np.random.uniform(0.7, 1.3))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return [self.view(self.x[i]), self.view(self.x[i])], self.y[i]


class SimCLR(nn.Module):
    def __init__(self):
        from lightly.models.modules import SimCLRProjectionHead

        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.projection_head = SimCLRProjectionHead(192, 96, 32)

    def forward(self, x):
        return self.projection_head(self.backbone(x))


@sound(
    "SimCLR with NTXentLoss; the labels in the batch are not used; two forward passes per step",
    source="lightly SimCLR example",
)
def lightly_simclr():
    from lightly.loss import NTXentLoss

    torch.manual_seed(0)
    (x, y), (vx, vy) = digit_tensors()
    model = SimCLR()

    def compute_loss(model, batch, loss_fn):
        (x0, x1), _ = batch
        return loss_fn(model(x0), model(x1))

    return {
        "model": model,
        "loader": DataLoader(TwoViews(x, y), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TwoViews(vx, vy), batch_size=64, drop_last=True),
        "loss_fn": NTXentLoss(temperature=0.3),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-4),
        "compute_loss": compute_loss,
    }


class VQAutoencoder(nn.Module):
    def __init__(self):
        from vector_quantize_pytorch import VectorQuantize

        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.GELU(), nn.Conv2d(32, 16, 3, 1, 1))
        self.vq = VectorQuantize(
            dim=16, codebook_size=64, decay=0.9, commitment_weight=0.25, accept_image_fmap=True, kmeans_init=True
        )
        self.decoder = nn.Sequential(nn.Conv2d(16, 32, 3, 1, 1), nn.GELU(), nn.ConvTranspose2d(32, 1, 4, 2, 1))

    def forward(self, x):
        z, indices, commit = self.vq(self.encoder(x))
        return self.decoder(z), indices, commit


@sound(
    "VQ-VAE with an EMA codebook (a buffer, no gradient), L1 reconstruction plus commitment loss",
    source="vector-quantize-pytorch examples/autoencoder.py",
)
def vq_autoencoder_ema_codebook():
    torch.manual_seed(0)
    (x, _), (vx, _) = digit_tensors()

    def compute_loss(model, batch, loss_fn):
        out, _, commit = model(batch[0])
        return loss_fn(out, batch[0]) + 10 * commit.sum()

    model = VQAutoencoder()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx), batch_size=100),
        "loss_fn": nn.L1Loss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


@sound(
    "diffusers UNet2DModel predicting the noise of DDPMScheduler, with an EMA copy kept beside it",
    source="diffusers unconditional image generation example; ema-pytorch",
)
def diffusers_ddpm_ema():
    from diffusers import DDPMScheduler, UNet2DModel
    from ema_pytorch import EMA

    torch.manual_seed(0)
    (x, _), (vx, _) = digit_tensors()
    x, vx = x * 2 - 1, vx * 2 - 1
    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(16, 24),
        add_attention=False,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    )
    noise_scheduler = DDPMScheduler(num_train_timesteps=200)
    ema = EMA(model, beta=0.99, update_after_step=10, update_every=2, include_online_model=False)

    def compute_loss(model, batch, loss_fn):
        clean = batch[0]
        noise = torch.randn_like(clean)
        timesteps = torch.randint(0, 200, (len(clean),)).long()
        noisy = noise_scheduler.add_noise(clean, noise, timesteps)
        return loss_fn(model(noisy, timesteps).sample, noise)

    def train_step(model, batch, loss_fn, optimizer):
        loss = compute_loss(model, batch, loss_fn)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema.update()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=16, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx), batch_size=50),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
        "train_step": train_step,
        "compute_loss": compute_loss,
    }


class HingeGAN(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.z = z
        self.G = nn.Sequential(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.D = nn.Sequential(
            spectral_norm(nn.Linear(2, 96)),
            nn.LeakyReLU(0.1),
            spectral_norm(nn.Linear(96, 96)),
            nn.LeakyReLU(0.1),
            spectral_norm(nn.Linear(96, 1)),
        )

    def forward(self, x):
        """Scores of samples."""
        return self.D(x)

    def sample(self, n):
        return self.G(torch.randn(n, self.z))


@sound(
    "spectral-norm GAN with the hinge loss, one optimizer with two groups, two discriminator steps per generator step",
    source="SNGAN; torch.nn.utils.parametrizations.spectral_norm",
)
def gan_spectral_hinge():
    torch.manual_seed(0)
    k = torch.randint(6, (1200,))
    real = 1.2 * torch.stack([torch.cos(k * 1.0472), torch.sin(k * 1.0472)], 1) + 0.08 * torch.randn(1200, 2)
    model = HingeGAN()
    optimizer = torch.optim.Adam(
        [{"params": model.G.parameters(), "lr": 1e-3}, {"params": model.D.parameters(), "lr": 2e-3}], betas=(0.0, 0.9)
    )

    def train_step(model, batch, loss_fn, optimizer):
        x = batch[0]
        for _ in range(2):
            fake = model.sample(len(x)).detach()
            d_loss = F.relu(1 - model.D(x)).mean() + F.relu(1 + model.D(fake)).mean()
            optimizer.zero_grad()
            d_loss.backward()
            optimizer.step()
        model.D.requires_grad_(False)
        g_loss = -model.D(model.sample(len(x))).mean()
        optimizer.zero_grad()
        g_loss.backward()
        optimizer.step()
        model.D.requires_grad_(True)
        return d_loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(real), batch_size=64, shuffle=True, drop_last=True),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@sound("SIREN fitted to one picture from its coordinates; no validation set is meant", source="siren-pytorch README")
def siren_fit_picture():
    from siren_pytorch import SirenNet
    from sklearn.datasets import load_sample_image

    torch.manual_seed(0)
    im = torch.tensor(load_sample_image("flower.jpg").copy(), dtype=torch.float32).permute(2, 0, 1)[None] / 127.5 - 1
    im = F.interpolate(im[..., 60:380, 160:480], size=(36, 36), mode="area")[0].permute(1, 2, 0).reshape(-1, 3)
    axis = torch.linspace(-1, 1, 36)
    coords = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    model = SirenNet(dim_in=2, dim_hidden=96, dim_out=3, num_layers=3, w0_initial=20.0)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(coords, im), batch_size=324, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }
