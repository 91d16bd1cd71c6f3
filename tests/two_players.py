"""Programs of several networks and optimizers, in dicts and lists: GANs, actor and critic, teacher and student."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.samples import seeded

__all__ = ["FAULTY", "SOUND"]

Program = dict[str, Any]
SIZE, NOISE = 64, 16


def digits() -> DataLoader[Any]:
    """Return images with their classes, from -1 to 1."""
    found = load_digits()
    images = torch.tensor(found.images / 8.0 - 1, dtype=torch.float32).flatten(1)[:512]
    return DataLoader(TensorDataset(images, torch.tensor(found.target[:512])), 32, shuffle=True, generator=seeded(1))


def mlp(*sizes: int, last: nn.Module | None = None) -> nn.Sequential:
    """Return layers with leaky units between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1], *([last] if last is not None else []))


def adam(network: Any) -> torch.optim.Adam:
    """Return an optimizer for a network, with the options of GANs."""
    return torch.optim.Adam(network.parameters(), 2e-4, betas=(0.5, 0.999))


def both(**parts: nn.Module) -> Program:
    """Return networks by name, each with its optimizer, and the digits."""
    return {"model": parts, "loader": digits(), "optimizer": {name: adam(part) for name, part in parts.items()}}


bce = F.binary_cross_entropy_with_logits


def _gan_step(detach: bool = True, second_zero: bool = True, fake_label: float = 0.0, own_label: float = 1.0) -> Any:
    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        real = batch[0]
        fake = model["generator"](torch.randn(len(real), NOISE))
        judged = model["critic"](real), model["critic"](fake.detach() if detach else fake)
        optimizer["critic"].zero_grad()
        critic_loss = bce(judged[0], torch.ones(len(real), 1)) + bce(judged[1], torch.full((len(real), 1), fake_label))
        critic_loss.backward(retain_graph=not detach)
        optimizer["critic"].step()
        if second_zero:
            optimizer["generator"].zero_grad()
        fake = model["generator"](torch.randn(len(real), NOISE))
        loss = bce(model["critic"](fake), torch.full((len(real), 1), own_label))
        loss.backward()
        optimizer["generator"].step()
        return loss + critic_loss.detach()

    return step


def _generator() -> nn.Sequential:
    return mlp(NOISE, 64, SIZE, last=nn.Tanh())


def _gan(**options: Any) -> Program:
    return both(generator=_generator(), critic=mlp(SIZE, 64, 1)) | {"train_step": _gan_step(**options)}


def gan() -> Program:
    """Return a GAN as it is meant."""
    return _gan()


def gan_in_lists() -> Program:
    """Return a GAN whose networks and optimizers are passed as lists, and that steps through unpacking."""
    generator, critic = _generator(), mlp(SIZE, 64, 1)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        makes, judges = model
        of_maker, of_judge = optimizer
        real, fake = batch[0], makes(torch.randn(len(batch[0]), NOISE))
        loss = F.relu(1 - judges(real)).mean() + F.relu(1 + judges(fake.detach())).mean()
        of_judge.zero_grad()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        own = -judges(fake).mean()
        own.backward()
        of_maker.step()
        return own

    parts = [generator, critic]
    return {"model": parts, "loader": digits(), "optimizer": [adam(p) for p in parts], "train_step": step}


def wasserstein() -> Program:
    """Return a WGAN with a gradient penalty, whose generator steps in every third call."""
    calls = [0]

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        real, critic = batch[0], model["critic"]
        fake = model["generator"](torch.randn(len(real), NOISE)).detach()
        mixed = torch.lerp(real, fake, torch.rand(len(real), 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        loss = critic(fake).mean() - critic(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
        optimizer["critic"].zero_grad()
        loss.backward()
        optimizer["critic"].step()
        calls[0] += 1
        if calls[0] % 3 == 0:
            optimizer["generator"].zero_grad()
            (-critic(model["generator"](torch.randn(len(real), NOISE))).mean()).backward()
            optimizer["generator"].step()
        return loss

    return both(generator=_generator(), critic=mlp(SIZE, 64, 1)) | {"train_step": step}


def actor_and_critic() -> Program:
    """Return an actor and its critic that one loss trains, each with its own optimizer."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        state, wanted = batch
        policy = torch.distributions.Categorical(logits=model["actor"](state))
        action = policy.sample()
        reward, value = (action == wanted).float(), model["critic"](state).squeeze(1)
        loss = -(policy.log_prob(action) * (reward - value.detach())).mean() + F.mse_loss(value, reward)
        for one in optimizer.values():
            one.zero_grad()
        loss.backward()
        for one in optimizer.values():
            one.step()
        return loss

    return both(actor=mlp(SIZE, 64, 10), critic=mlp(SIZE, 64, 1)) | {"train_step": step}


def teacher_and_student() -> Program:
    """Return a student that follows a slow average of itself, and has the only optimizer."""
    student = mlp(SIZE, 64, 10)
    teacher = copy.deepcopy(student).requires_grad_(False)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, y = batch
        with torch.no_grad():
            wanted = model["teacher"](x).softmax(-1)
        seen = model["student"](x + 0.1 * torch.randn_like(x))
        loss = F.cross_entropy(seen, y) + F.kl_div(seen.log_softmax(-1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model["teacher"].parameters(), model["student"].parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return loss

    optimizer = torch.optim.Adam(student.parameters(), 1e-3)
    return {"model": {"student": student, "teacher": teacher}, "loader": digits(), "optimizer": optimizer} | {
        "train_step": step
    }


def encoder_and_decoder() -> Program:
    """Return two halves of an autoencoder in a list, with an optimizer each and a `compute_loss`."""
    parts = [mlp(SIZE, 32, 8), mlp(8, 32, SIZE)]

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return F.mse_loss(model[1](model[0](batch[0])), batch[0])

    optimizers = (torch.optim.Adam(parts[0].parameters(), 1e-3), torch.optim.SGD(parts[1].parameters(), 0.1))
    return {"model": parts, "loader": digits(), "optimizer": optimizers, "compute_loss": compute_loss}


def one_model_two_optimizers() -> Program:
    """Return one classifier whose matrices and biases have different optimizers, without a step of its own."""
    model = mlp(SIZE, 64, 10)
    matrices, rest = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() < 2]
    optimizers = [torch.optim.AdamW(matrices, 1e-3), torch.optim.SGD(rest, 0.01)]
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizers}


def translations_both_ways() -> Program:
    """Return two generators with one optimizer and two critics with another, as a CycleGAN has them."""
    parts = {"there": mlp(SIZE, 48, SIZE), "back": mlp(SIZE, 48, SIZE)}
    judges = {"first": mlp(SIZE, 32, 1), "second": mlp(SIZE, 32, 1)}
    chained = [p for part in parts.values() for p in part.parameters()]
    judging = [p for part in judges.values() for p in part.parameters()]

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, y = batch[0], batch[0].flip(1)
        there, back = model["there"](x), model["back"](y)
        cycles = F.l1_loss(model["back"](there), x) + F.l1_loss(model["there"](back), y)
        fooled = F.mse_loss(model["second"](there), torch.ones(len(x), 1)) + F.mse_loss(
            model["first"](back), torch.ones(len(x), 1)
        )
        loss = fooled + 10 * cycles
        optimizer["generators"].zero_grad()
        loss.backward()
        optimizer["generators"].step()
        optimizer["critics"].zero_grad()
        pairs = ((model["second"], y, there), (model["first"], x, back))
        judged = sum(
            F.mse_loss(one(real), torch.ones(len(x), 1)) + F.mse_loss(one(fake.detach()), torch.zeros(len(x), 1))
            for one, real, fake in pairs
        )
        judged.backward()
        optimizer["critics"].step()
        return loss

    options = {"lr": 2e-4, "betas": (0.5, 0.999)}
    optimizers = {"generators": torch.optim.Adam(chained, **options), "critics": torch.optim.Adam(judging, **options)}
    return {"model": parts | judges, "loader": digits(), "optimizer": optimizers, "train_step": step}


def gradients_leak() -> Program:
    """Return a GAN whose generator steps with the critic's gradients too."""
    return _gan(detach=False, second_zero=False)


def same_labels() -> Program:
    """Return a GAN whose critic calls everything real."""
    return _gan(fake_label=1.0)


def generator_caught() -> Program:
    """Return a GAN whose generator is trained with the critic's label for its samples."""
    return _gan(own_label=0.0)


def optimizer_of_the_other() -> Program:
    """Return a GAN both of whose optimizers hold the critic."""
    made = _gan()
    made["optimizer"]["generator"] = adam(made["model"]["critic"])
    return made


def never_steps() -> Program:
    """Return an actor and a critic, in lists, of which the critic never steps."""
    parts = [mlp(SIZE, 64, 10), mlp(SIZE, 64, 1)]

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        state, wanted = batch
        policy = torch.distributions.Categorical(logits=model[0](state))
        action = policy.sample()
        reward, value = (action == wanted).float(), model[1](state).squeeze(1)
        loss = -(policy.log_prob(action) * (reward - value.detach())).mean() + F.mse_loss(value, reward)
        optimizer[0].zero_grad()
        optimizer[1].zero_grad()
        loss.backward()
        optimizer[0].step()
        return loss

    return {"model": parts, "loader": digits(), "optimizer": [adam(p) for p in parts], "train_step": step}


def updates_never_come() -> Program:
    """Return a GAN whose generator is detached where it is to be trained, so that no gradient reaches it."""
    made = _gan()

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        real = batch[0]
        fake = model["generator"](torch.randn(len(real), NOISE)).detach()
        optimizer["critic"].zero_grad()
        judged = bce(model["critic"](real), torch.ones(len(real), 1)) + bce(
            model["critic"](fake), torch.zeros(len(real), 1)
        )
        judged.backward()
        optimizer["critic"].step()
        optimizer["generator"].zero_grad()
        loss = bce(model["critic"](fake), torch.ones(len(real), 1))
        loss.backward()
        optimizer["generator"].step()
        return loss

    return made | {"train_step": step}


SOUND = (
    gan, gan_in_lists, wasserstein, actor_and_critic, teacher_and_student, encoder_and_decoder,
    one_model_two_optimizers, translations_both_ways,
)  # fmt: skip
FAULTY = {
    gradients_leak: "gradients-leak-between-optimizers",
    same_labels: "adversarial-labels-equal",
    generator_caught: "adversarial-labels-equal",
    optimizer_of_the_other: "parameters-missing-from-optimizer",
    never_steps: "optimizer-without-effect",
    updates_never_come: "optimizer-without-effect",
}
