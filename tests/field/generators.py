"""Generative models: flows of zuko and nflows, denoisers of diffusers, and networks that play against each other."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.field import program
from tests.zoo.samples import digit_images, scaled, seeded


def points(batch_size: int = 50) -> DataLoader[Any]:
    """Return batches of points of two moons."""
    return DataLoader(TensorDataset(scaled(make_moons(600, noise=0.06, random_state=0)[0])), batch_size, shuffle=True)


@program("loss", "zuko", likelihood_brought_down=("loss-unbounded-below", "loss-sign-flipped", "non-finite-forward"))
def zuko_spline_flow(fault: str = "") -> dict[str, Any]:
    """A neural spline flow that is trained on its likelihood."""
    import zuko

    sign = 1 if fault == "likelihood_brought_down" else -1

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return sign * model().log_prob(batch[0]).mean()

    model = zuko.flows.NSF(2, transforms=2, hidden_features=(32, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {"model": model, "loader": points(), "compute_loss": compute_loss, "optimizer": optimizer}


@program("loss", "zuko")
def zuko_posterior(fault: str = "") -> dict[str, Any]:
    """A conditional flow that infers the parameters of a simulator."""
    import zuko

    g = seeded()
    parameters = torch.rand(600, 2, generator=g) * 2 - 1
    noise = 0.1 * torch.randn(600, 2, generator=g)
    seen = torch.cat([parameters + noise, parameters.pow(2).sum(1, keepdim=True)], 1)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return -model(batch[1]).log_prob(batch[0]).mean()

    model = zuko.flows.MAF(2, context=3, transforms=2, hidden_features=(32,))
    loader = DataLoader(TensorDataset(parameters, seen), 50, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    return {"model": model, "loader": loader, "compute_loss": compute_loss, "optimizer": optimizer}


@program("loss", "nflows")
def nflows_autoregressive(fault: str = "") -> dict[str, Any]:
    """A masked autoregressive flow whose layers are permuted."""
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation

    layers = [m for _ in range(2) for m in (ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 16))]
    model = Flow(CompositeTransform(layers), StandardNormal([2]))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return -model.log_prob(inputs=batch[0]).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return {"model": model, "loader": points(), "compute_loss": compute_loss, "optimizer": optimizer}


@program("loss", "diffusers", noise_drawn_again=("targets-drawn-at-random",), sample_ignored=("inputs-ignored",))
def diffusers_denoiser(fault: str = "") -> dict[str, Any]:
    """A U-Net of diffusers that learns the noise of a scheduler."""
    from diffusers import DDPMScheduler, UNet2DModel

    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    sizes: dict[str, Any] = {"layers_per_block": 1, "block_out_channels": (8, 8), "norm_num_groups": 4}
    model = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, **sizes, **blocks)
    scheduler = DDPMScheduler(num_train_timesteps=100)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        noise, steps = torch.randn_like(batch[0]), torch.randint(0, 100, (len(batch[0]),))
        noisy = noise if fault == "sample_ignored" else scheduler.add_noise(batch[0], noise, steps)
        target = torch.randn_like(noise) if fault == "noise_drawn_again" else noise
        return F.mse_loss(model(noisy, steps).sample, target)

    images = digit_images()[0][:320] * 2 - 1
    loader = DataLoader(TensorDataset(images), 16, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return {"model": model, "loader": loader, "compute_loss": compute_loss, "optimizer": optimizer}


def networks() -> tuple[nn.Module, nn.Module]:
    """Return a generator of points and a critic."""
    generator = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 2))
    return generator, nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))


@program(
    "two players",
    fake_not_detached=("gradients-leak-between-optimizers",),
    same_labels=("adversarial-labels-equal",),
    generator_never_steps=("optimizer-without-effect", "step-never-taken"),
    generator_cut_off=("optimizer-without-effect", "untrained-parameters", "loss-not-differentiable"),
)
def generator_and_critic(fault: str = "") -> dict[str, Any]:
    """A GAN with an optimizer for each network."""
    generator, critic = networks()

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        real = batch[0]
        one, zero = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = model["generator"](torch.randn(len(real), 8))
        seen = fake if fault == "fake_not_detached" else fake.detach()
        against = loss_fn(model["critic"](real), one)
        against = against + loss_fn(model["critic"](seen), one if fault == "same_labels" else zero)
        if fault != "fake_not_detached":
            optimizer["critic"].zero_grad()
        against.backward(retain_graph=fault == "fake_not_detached")
        optimizer["critic"].step()
        again = fake.detach() if fault == "generator_cut_off" else fake
        if fault == "fake_not_detached":  # its graph holds the critic before the step
            again = model["generator"](torch.randn(len(real), 8))
        loss = loss_fn(model["critic"](again), one)
        if fault != "fake_not_detached":
            optimizer["generator"].zero_grad()
        loss.backward()
        if fault != "generator_never_steps":
            optimizer["generator"].step()
        if fault == "fake_not_detached":
            optimizer["generator"].zero_grad()
            optimizer["critic"].zero_grad()
        return against.item()

    return {
        "model": {"generator": generator, "critic": critic},
        "loader": points(),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "train_step": train_step,
        "optimizer": {
            "generator": torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999)),
            "critic": torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999)),
        },
    }


@program("two players", penalty_without_graph=("missing-create-graph",))
def wasserstein_with_penalty(fault: str = "") -> dict[str, Any]:
    """A Wasserstein GAN with a gradient penalty; networks and optimizers are lists."""
    generator, critic = networks()

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        real = batch[0]
        fake = model[0](torch.randn(len(real), 8)).detach()
        share = torch.rand(len(real), 1)
        between = (share * real + (1 - share) * fake).requires_grad_(True)
        has_graph = fault != "penalty_without_graph"
        (slope,) = torch.autograd.grad(model[1](between).sum(), between, create_graph=has_graph)
        loss = model[1](fake).mean() - model[1](real).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
        optimizer[1].zero_grad()
        loss.backward()
        optimizer[1].step()
        optimizer[0].zero_grad()
        (-model[1](model[0](torch.randn(len(real), 8))).mean()).backward()
        optimizer[0].step()
        return loss

    optimizers = [torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.0, 0.9)) for network in (generator, critic)]
    return {"model": [generator, critic], "loader": points(), "train_step": train_step, "optimizer": optimizers}


@program(
    "parts",
    no_straight_through=("untrained-parameters", "loss-not-differentiable"),
    codebook_left_out=("untrained-parameters", "parameters-missing-from-optimizer"),
)
def codes_of_digits(fault: str = "") -> dict[str, Any]:
    """A VQ-VAE with a straight-through estimator."""

    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 3, 1, 1))
            self.codes = nn.Embedding(32, 8)
            nn.init.uniform_(self.codes.weight, -0.3, 0.3)
            self.decoder = nn.Sequential(nn.Conv2d(8, 16, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            z = self.encoder(x).permute(0, 2, 3, 1)
            code = torch.cdist(z.reshape(-1, 8), self.codes.weight).argmin(1)
            chosen = self.codes(code).view_as(z)
            extra = 0.25 * F.mse_loss(z, chosen.detach())
            if fault != "codebook_left_out":
                extra = extra + F.mse_loss(chosen, z.detach())
            if fault == "no_straight_through":
                return self.decoder(chosen.permute(0, 3, 1, 2)), 0 * extra.detach()
            through = z + (chosen - z).detach()
            return self.decoder(through.permute(0, 3, 1, 2)), extra

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        image, extra = model(batch[0])
        return F.mse_loss(image, batch[0]) + extra

    model = Quantizer()
    loader = DataLoader(TensorDataset(digit_images()[0]), 32, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    return {"model": model, "loader": loader, "compute_loss": compute_loss, "optimizer": optimizer}
