"""Programs that use a part of a model, and columns that meet in another shape: sound, and with one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.likelihood_programs import Loss, network, rows
from tests.checks.position_programs import Program, library_model, program
from tests.zoo.samples import seeded


class Agent(nn.Module):
    """A policy and a value behind one trunk; the forward pass returns both."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Score the actions."""
        return self.policy(self.trunk(x))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores and values."""
        h = self.trunk(x)
        return self.policy(h), self.value(h)


def actions() -> torch.Tensor:
    """Return an action for each row."""
    return rows()[:, :3].argmax(1)


def agent(choose: Callable[[Agent, torch.Tensor], torch.Tensor]) -> Program:
    """Return a program that imitates actions by a part of the agent."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return F.cross_entropy(choose(model, batch[0]), batch[1])

    return program(Agent(), rows(), actions(), compute_loss=compute_loss)


def critic_step(advantage: Loss) -> Program:
    """Return an actor and a critic that a step of its own trains."""

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        scores, value = model(batch[0])
        policy = torch.distributions.Categorical(logits=scores)
        chosen = policy.sample()
        reward = batch[1].gather(1, chosen[:, None])
        actor = -(advantage(policy.log_prob(chosen), (reward - value).detach())).mean()
        loss = actor + F.mse_loss(value, reward)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return program(Agent(), rows(), rows()[:, :3].tanh(), train_step=train_step)


def regression(loss: Loss) -> Program:
    """Return a program with one number, one weight and one target per sample."""
    weights = torch.rand(48, generator=seeded(31)) + 0.5

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0]), batch[1], batch[2])

    return program(network(1), rows(), rows().sum(1), weights, compute_loss=compute_loss)


class Pooled(nn.Module):
    """A classifier on the states of a library's encoder, whose pooler is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = library_model("bert").bert, nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score two classes."""
        return self.head(self.body(x).last_hidden_state.mean(1))


class WithPooler(Pooled):
    """The same with a pooler that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        import transformers as hf

        sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
        self.body = hf.BertModel(hf.BertConfig(intermediate_size=64, **sizes))


class Forgotten(nn.Module):
    """A network with a layer that its forward pass leaves out."""

    def __init__(self, kind: str = "layer") -> None:
        super().__init__()
        self.first, self.last, self.kind = nn.Linear(8, 16), nn.Linear(16, 3), kind
        self.second = nn.Sequential(nn.Linear(16, 16), nn.ReLU()) if kind == "block" else nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score three classes."""
        h = self.first(x).relu()
        if self.kind == "result":
            self.second(h)
        return self.last(h)


def classes(model: nn.Module) -> Program:
    """Return a plain classifier."""
    return program(model, rows(), actions(), loss_fn=nn.CrossEntropyLoss())


def texts(model: nn.Module) -> Program:
    """Return a classifier of tokens."""
    tokens = torch.randint(1, 50, (48, 8), generator=seeded(32))
    return program(model, tokens, tokens[:, 0] % 2, loss_fn=nn.CrossEntropyLoss())


PART_USED: dict[str, Callable[[], Program]] = {
    "method": lambda: agent(lambda model, x: model.scores(x)),
    "modules": lambda: agent(lambda model, x: model.policy(model.trunk(x))),
    "critic-in-the-step": lambda: critic_step(lambda log_prob, gain: log_prob[:, None] * gain),
    "library-without-pooler": lambda: texts(Pooled()),
    "library-with-pooler": lambda: texts(WithPooler()),
    "all": lambda: classes(network(3)),
}
PART_FORGOTTEN: dict[str, Callable[[], Program]] = {
    "layer": lambda: classes(Forgotten()),
    "block": lambda: classes(Forgotten("block")),
    "result": lambda: classes(Forgotten("result")),
}
SAME_SHAPE: dict[str, Callable[[], Program]] = {
    "columns": lambda: critic_step(lambda log_prob, gain: log_prob[:, None] * gain),
    "rows": lambda: critic_step(lambda log_prob, gain: log_prob * gain.squeeze(1)),
    "weighted": lambda: regression(lambda x, y, w: ((x.squeeze(1) - y).square() * w).mean()),
    "pairwise": lambda: regression(
        lambda x, y, w: F.softplus(-(x - x.squeeze(1)) * (y[:, None] - y[None]).sign()).mean()
    ),
    "pairwise-told": lambda: regression(lambda x, y, w: (x - x.T - (y[:, None] - y)).square().mean()),
    "kernel": lambda: regression(
        lambda x, y, w: (x.squeeze(1) - y).square().mean() + (-(x - x.T).square()).exp().mean()
    ),
}
SQUARE: dict[str, Callable[[], Program]] = {
    "advantage": lambda: critic_step(lambda log_prob, gain: log_prob * gain),
    "weighted": lambda: regression(lambda x, y, w: ((x - y[:, None]).square() * w).mean()),
    "weighted-loss": lambda: regression(
        lambda x, y, w: (F.smooth_l1_loss(x, y.unsqueeze(1), reduction="none") * w).mean()
    ),
    "variance": lambda: regression(lambda x, y, w: ((x - y[:, None]).abs() / w).sum() / len(y)),
    "target": lambda: regression(lambda x, y, w: (x - y).square().mean()),
    "discounted": lambda: regression(lambda x, y, w: (w + 0.9 * x.detach() - x.squeeze(1)).square().mean()),
}
