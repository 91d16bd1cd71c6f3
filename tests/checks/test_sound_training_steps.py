"""Sound training steps of many kinds, on which no check of steps, networks and optimizers may raise an alarm."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.networks import LATENT, WIDTH, bce, classifier, critic_net, generator_net, loader

CHECKS = [
    "parameters-missing-from-optimizer", "unregistered-parameters", "untrained-parameters", "accumulated-gradients",
    "optimizer-without-effect", "gradients-leak-between-optimizers", "clipping-without-effect", "moving-average-wrong",
    "updates-lost-to-rounding", "requires-grad-left-off", "accumulation-not-averaged", "step-never-taken",
    "schedule-unit-wrong", "class-ignored-by-loss", "missing-create-graph", "adversarial-labels-equal",
    "layers-share-weights", "graph-kept-alive",
]  # fmt: skip


def made(step: Any, model: nn.Module, optimizer: Any = None, targets: bool = False) -> dict[str, Any]:
    """Return a set-up with this step."""
    own = optimizer if optimizer is not None else torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": loader(targets=targets), "optimizer": own, "train_step": step}


def sharpness_aware() -> dict[str, Any]:
    """Two passes per step: at the weights, and where the loss is highest nearby (SAM)."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, y = batch
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            shifts = [0.05 * p.grad / norm for p in model.parameters()]
            for p, shift in zip(model.parameters(), shifts, strict=True):
                p.add_(shift)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, shift in zip(model.parameters(), shifts, strict=True):
                p.sub_(shift)
        optimizer.step()
        return loss

    return made(step, classifier(), targets=True)


def lookahead() -> dict[str, Any]:
    """Slow weights that take half of the way every third step."""
    model = classifier()
    slow, calls = copy.deepcopy(model), [0]

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        calls[0] += 1
        if calls[0] % 3 == 0:
            with torch.no_grad():
                for a, b in zip(slow.parameters(), model.parameters(), strict=True):
                    a.lerp_(b, 0.5)
                    b.copy_(a)
        return loss

    return made(step, model, targets=True)


class Adapted(nn.Module):
    """A frozen body with a trained low-rank path and a prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2 * WIDTH, 16).requires_grad_(False)
        self.down, self.up = nn.Linear(2 * WIDTH, 2, bias=False), nn.Linear(2, 16, bias=False)
        nn.init.zeros_(self.up.weight)
        self.prompt, self.head = nn.Parameter(torch.zeros(WIDTH)), nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the path to the body."""
        x = torch.cat([x, self.prompt.expand(len(x), -1)], 1)
        return self.head((self.body(x) + self.up(self.down(x))).relu())


def adapters() -> dict[str, Any]:
    """Only what is trained is in the optimizer."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    model = Adapted()
    return made(step, model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-3), targets=True)


def truncated_backpropagation() -> dict[str, Any]:
    """A state that is detached between chunks, with a step per chunk."""
    cell, head = nn.GRUCell(2, 8), nn.Linear(8, 1)
    both = torch.optim.Adam(itertools.chain(cell.parameters(), head.parameters()), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        state, loss = torch.zeros(len(batch[0]), 8), torch.zeros(())
        for chunk in batch[0].view(-1, 4, 2).split(2, 1):
            state = state.detach()
            both.zero_grad()
            for x in chunk.unbind(1):
                state = cell(x, state)
            loss = (head(state) - chunk[:, -1, :1]).square().mean()
            loss.backward()
            both.step()
        return loss

    return {"model": cell, "loader": loader(), "train_step": step}


def vector_quantized() -> dict[str, Any]:
    """A codebook that is moved without gradients, and a straight-through estimator."""
    encoder, decoder = nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH)
    codebook = torch.randn(12, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        code = encoder(batch[0])
        nearest = torch.cdist(code, codebook).argmin(1)
        chosen = codebook[nearest]
        optimizer.zero_grad()
        again = decoder(code + (chosen - code).detach())
        loss = F.mse_loss(again, batch[0]) + 0.25 * F.mse_loss(code, chosen)
        loss.backward()
        optimizer.step()
        codebook.index_add_(0, nearest, 0.01 * (code.detach() - chosen))
        return loss

    return made(step, encoder, optimizer)


def momentum_contrast() -> dict[str, Any]:
    """A key encoder that follows the query encoder, and a queue of keys."""
    query = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 4))
    key, queue = copy.deepcopy(query).requires_grad_(False), [F.normalize(torch.randn(32, 4), dim=1)]

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        with torch.no_grad():
            for a, b in zip(key.parameters(), model.parameters(), strict=True):
                a.mul_(0.99).add_(b, alpha=0.01)
            keys = F.normalize(key(batch[0] + 0.1 * torch.randn_like(batch[0])), dim=1)
        codes = F.normalize(model(batch[0]), dim=1)
        alike = torch.cat([(codes * keys).sum(1, keepdim=True), codes @ queue[0].T], 1) / 0.2
        loss = F.cross_entropy(alike, torch.zeros(len(alike), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue[0] = torch.cat([keys, queue[0]])[:32]
        return loss

    return made(step, query)


def siamese_without_negatives() -> dict[str, Any]:
    """Predict one view from the other, whose gradient is stopped (SimSiam)."""
    encoder, predictor = nn.Linear(WIDTH, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], 0.05)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        one, two = (encoder(batch[0] + 0.1 * torch.randn_like(batch[0])) for _ in range(2))
        loss = -F.cosine_similarity(predictor(one), two.detach()).mean()
        loss = loss - F.cosine_similarity(predictor(two), one.detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return made(step, encoder, optimizer)


class Wasserstein:
    """Five steps of the critic, whose weights are clamped, for one of the generator."""

    def __init__(self, generator: nn.Module) -> None:
        self.generator, self.critic, self.calls = generator, critic_net(), 0
        self.critic_optimizer = torch.optim.RMSprop(self.critic.parameters(), 5e-4)

    def train_step(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Train the critic, and the generator in every fifth call."""
        noise = torch.randn(len(batch[0]), LATENT)
        self.critic_optimizer.zero_grad()
        loss = self.critic(self.generator(noise).detach()).mean() - self.critic(batch[0]).mean()
        loss.backward()
        self.critic_optimizer.step()
        for p in self.critic.parameters():
            p.data.clamp_(-0.05, 0.05)
        self.calls += 1
        if self.calls % 5 == 0:
            optimizer.zero_grad()
            (-self.critic(self.generator(noise)).mean()).backward()
            optimizer.step()
        return loss


def wasserstein() -> dict[str, Any]:
    """A method is the step."""
    generator = generator_net()
    return made(Wasserstein(generator).train_step, generator, torch.optim.RMSprop(generator.parameters(), 5e-4))


def soft_actor_critic() -> dict[str, Any]:
    """Two critics with targets, an actor, and a temperature that is learned."""
    actor = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 2))
    critics = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH + 2, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2))
    targets = copy.deepcopy(critics).requires_grad_(False)
    log_alpha = torch.zeros((), requires_grad=True)
    actor_opt = torch.optim.Adam(actor.parameters(), 1e-3)
    critic_opt, alpha_opt = torch.optim.Adam(critics.parameters(), 1e-3), torch.optim.Adam([log_alpha], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        state, following = batch[0], batch[0].roll(1, 0)
        action = torch.randn(len(state), 2)
        with torch.no_grad():
            pair = torch.cat([following, actor(following)], 1)
            wanted = state[:, :1] + 0.9 * torch.minimum(*(target(pair) for target in targets))
        critic_loss = sum(F.mse_loss(critic(torch.cat([state, action], 1)), wanted) for critic in critics)
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()
        for p in critics.parameters():
            p.requires_grad = False
        chosen = actor(state) + 0.1 * torch.randn(len(state), 2)
        entropy = -chosen.square().sum(1)
        actor_loss = (-critics[0](torch.cat([state, chosen], 1))[:, 0] - log_alpha.exp().detach() * entropy).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        for p in critics.parameters():
            p.requires_grad = True
        alpha_opt.zero_grad()
        (-(log_alpha * (entropy.detach() + 1.0)).mean()).backward()
        alpha_opt.step()
        with torch.no_grad():
            for a, b in zip(targets.parameters(), critics.parameters(), strict=True):
                a.mul_(0.995).add_(0.005 * b)
        return critic_loss

    return made(step, actor, actor_opt)


def cycle() -> dict[str, Any]:
    """Two generators in one optimizer, and two critics with one each."""
    nets = {name: nn.Linear(WIDTH, WIDTH) for name in ("ab", "ba")} | {name: critic_net() for name in ("a", "b")}
    opt_g = torch.optim.Adam(itertools.chain(nets["ab"].parameters(), nets["ba"].parameters()), 1e-3)
    opts = {name: torch.optim.Adam(nets[name].parameters(), 1e-3) for name in ("a", "b")}

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        a, b = batch[0], batch[0].flip(1)
        made_b, made_a = nets["ab"](a), nets["ba"](b)
        loss = F.l1_loss(nets["ba"](made_b), a) + F.l1_loss(nets["ab"](made_a), b)
        for critic, fake in ((nets["b"], made_b), (nets["a"], made_a)):
            said = critic(fake)
            loss = loss + F.mse_loss(said, torch.ones_like(said))
        opt_g.zero_grad()
        loss.backward()
        opt_g.step()
        for name, real, fake in (("a", a, made_a), ("b", b, made_b)):
            opts[name].zero_grad()
            said, seen = nets[name](real), nets[name](fake.detach())
            (F.mse_loss(said, torch.ones_like(said)) + F.mse_loss(seen, torch.zeros_like(seen))).mul(0.5).backward()
            opts[name].step()
        return loss

    return {"model": nets["ab"], "loader": loader(), "optimizer": opt_g, "train_step": step}


def adversarial_domains() -> dict[str, Any]:
    """A reversed gradient from a classifier of domains."""

    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return -gradient

    body, head, domain = nn.Linear(WIDTH, 8), nn.Linear(8, 2), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters(), *domain.parameters()], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        source, target = body(batch[0]).relu(), body(batch[0] + 1).relu()
        seen = [domain(Reverse.apply(part)) for part in (source, target)]
        loss = F.cross_entropy(head(source), batch[1])
        loss = loss + bce(seen[0], torch.zeros_like(seen[0])) + bce(seen[1], torch.ones_like(seen[1]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(itertools.chain(body.parameters(), head.parameters(), domain.parameters()), 1.0)
        optimizer.step()
        return loss

    return made(step, body, optimizer, targets=True)


def distillation_with_hints() -> dict[str, Any]:
    """A fixed teacher in eval mode whose gradients nobody switched off, and a projection that is trained."""
    student, teacher, project = classifier(), classifier().eval(), nn.Linear(2, 2)
    optimizer = torch.optim.Adam([*student.parameters(), *project.parameters()], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(project(model(batch[0])), teacher(batch[0]))
        loss.backward()
        optimizer.step()
        return loss

    return made(step, student, optimizer)


MAKERS: list[Callable[[], dict[str, Any]]] = [
    sharpness_aware, lookahead, adapters, truncated_backpropagation, vector_quantized, momentum_contrast,
    siamese_without_negatives, wasserstein, soft_actor_critic, cycle, adversarial_domains, distillation_with_hints,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_silent(make: Callable[[], dict[str, Any]]) -> None:
    """No alarm, and no check crashes."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**make(), checks=CHECKS, progress=False)
    assert not report.alarms, [str(finding) for finding in report.alarms]
    assert not [str(result) for result in report.results if result.status == "crashed"]
