"""Optimizers, schedulers, losses and loops, in the middle of what they do."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.trust.setups import adam, case, classify, loader, mlp, trained

HISTORY: dict[str, list[float]] = {"loss": []}
STEPS = 0


@case()
def sgd_with_momentum() -> dict[str, Any]:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    trained(model, optimizer)
    return classify(model, optimizer=optimizer)


@case()
def fused_adamw() -> dict[str, Any]:
    model = mlp()
    optimizer = adam(model, fused=True)
    trained(model, optimizer)
    return classify(model, optimizer=optimizer)


@case(quick=True)
def lbfgs() -> dict[str, Any]:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    values, labels = next(iter(loader()))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(values), labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return classify(model, optimizer=optimizer)


@case(quick=True)
def gradients_and_a_graph_that_wait() -> dict[str, Any]:
    """Half an accumulation done, and a loss whose backward pass is still to come."""
    model = mlp(nn.BatchNorm1d(8), nn.ReLU())
    optimizer = adam(model)
    values, labels = next(iter(loader()))
    nn.functional.cross_entropy(model(values), labels).backward()
    pending = nn.functional.cross_entropy(model(values), labels)
    return classify(model, optimizer=optimizer, also=[pending])


@case()
def scheduler_and_groups() -> dict[str, Any]:
    model = mlp()
    groups = [{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2].parameters(), "weight_decay": 0.1}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[1e-2, 1e-2], total_steps=20)
    trained(model, optimizer)
    scheduler.step()
    return classify(model, optimizer=optimizer, scheduler=scheduler)


@case()
def optimizer_with_hooks() -> dict[str, Any]:
    model, steps = mlp(), []
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = adam(model)
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    optimizer.register_step_post_hook(lambda *_: average.update_parameters(model))
    return classify(model, optimizer=optimizer, also=[steps, average])


@case()
def loss_with_parameters() -> dict[str, Any]:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_scale = nn.Parameter(torch.zeros(()))
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return nn.functional.cross_entropy(output * self.log_scale.exp(), target)

    model, loss_fn = mlp(), Weighted()
    optimizer = torch.optim.Adam([*model.parameters(), *loss_fn.parameters()], lr=1e-2)
    return classify(model, loss_fn=loss_fn, optimizer=optimizer)


@case(quick=True)
def loss_that_names_the_model() -> dict[str, Any]:
    model, seen = mlp(), []

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        seen.append(float(output.detach().mean()))
        return nn.functional.cross_entropy(output, target) + 1e-3 * sum(p.square().sum() for p in model.parameters())

    return classify(model, loss_fn=loss_fn, optimizer=adam(model), also=[seen])


@case(quick=True)
def step_that_names_everything() -> dict[str, Any]:
    """A notebook's loop: it forgets its arguments and uses the globals, a scaler, a history and a counter."""
    model = mlp()
    optimizer = adam(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    average = torch.optim.swa_utils.AveragedModel(model)

    def note(value: float) -> None:
        HISTORY["loss"].append(value)

    def train_step(_: Any, batch: Any, loss_fn: Any, __: Any) -> torch.Tensor:
        global STEPS
        STEPS += 1
        values, labels = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(values), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        average.update_parameters(model)
        note(float(loss.detach()))
        return loss

    return classify(model, optimizer=optimizer, train_step=train_step, also=[scaler, average, HISTORY, lambda: STEPS])


@case()
def step_of_a_trainer() -> dict[str, Any]:
    class Trainer:
        def __init__(self) -> None:
            self.model, self.count, self.log = mlp(), 0, []
            self.optimizer, self.loader = adam(self.model), loader(shuffle=True)

        def step(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
            self.count += 1
            self.optimizer.zero_grad()
            loss = loss_fn(self.model(batch[0]), batch[1])
            loss.backward()
            self.optimizer.step()
            self.log.append(loss)
            return loss

    trainer = Trainer()
    more = {"loader": trainer.loader, "optimizer": trainer.optimizer, "train_step": trainer.step, "also": [trainer]}
    return classify(trainer.model, **more)


@case()
def step_that_draws_from_a_live_loader() -> dict[str, Any]:
    live = loader(shuffle=True, num_workers=1, persistent_workers=True, generator=torch.Generator().manual_seed(2))
    iterator = iter(live)
    next(iterator)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        other = next(iter(live))
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1]) + loss_fn(model(other[0]), other[1])
        loss.backward()
        optimizer.step()
        return loss

    model = mlp()
    return classify(model, optimizer=adam(model), train_step=train_step, also=[live, iterator])


@case()
def own_compute_loss() -> dict[str, Any]:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(6, 3), nn.Linear(6, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.one(x), self.two(x)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        classes, score = model(batch[0])
        return nn.functional.cross_entropy(classes, batch[1]) + score.square().mean()

    model = TwoHeads()
    return {"model": model, "loader": loader(), "optimizer": adam(model), "compute_loss": compute_loss}


@case()
def gan_with_a_second_network() -> dict[str, Any]:
    model, critic = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer, second = adam(model), adam(critic)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        second.zero_grad()
        (critic(model(batch[0]).detach()).mean() - critic(batch[0]).mean()).backward()
        second.step()
        optimizer.zero_grad()
        loss = -critic(model(batch[0])).mean()
        loss.backward()
        optimizer.step()
        return loss

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return -critic(model(batch[0])).mean()

    more = {"train_step": train_step, "compute_loss": compute_loss, "also": [critic, second]}
    return {"model": model, "loader": loader(), "optimizer": optimizer, **more}


@case()
def changed_defaults() -> dict[str, Any]:
    return classify(mlp(), class_names=["a", "b", "c"], also=[torch.get_default_dtype()])
