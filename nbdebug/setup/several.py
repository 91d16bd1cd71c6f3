"""Several networks and several optimizers in the place of one: a GAN, an actor and its critic, a teacher."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from nbdebug.errors import BadInput

__all__ = ["SeveralOptimizers", "as_one_model", "as_one_optimizer", "kind_of_model", "kind_of_optimizer"]

STEP = "pass train_step=step, with def step(model, batch, loss_fn, optimizer), which calls model{0} and the others"
EXAMPLE = 'model={"generator": g, "critic": d}, optimizer={"generator": opt_g, "critic": opt_d}, train_step=step'


def as_one_model(model: Any, *, has_program: bool) -> Any:
    """Return a list or dict of networks as one module, where the user's own step or loss calls them."""
    parts = _named_parts(model)
    if parts is None or not any(isinstance(part, nn.Module) for part in parts.values()):
        return model
    for key, part in parts.items():
        _check_network(model, key, part)
    if not has_program:
        place = "[0]" if not isinstance(model, Mapping) else f"[{next(iter(parts))!r}]"
        raise BadInput(
            f"it is a {type(model).__name__} of {len(parts)} networks, and nothing says how they are called",
            where="model",
            expected="one torch.nn.Module, or several with the train_step or compute_loss that calls them",
            do=STEP.format(place),
        )
    made = nn.ModuleDict(parts) if isinstance(model, Mapping) else nn.ModuleList(parts.values())
    made.training = any(part.training for part in parts.values())
    made.__dict__["_is_several"] = True
    return made


def as_one_optimizer(optimizer: Any, *, has_step: bool) -> Any:
    """Return a list or dict of optimizers as one object that holds them all, by the same places."""
    parts = _named_parts(optimizer)
    if parts is None or (parts and not any(hasattr(part, "param_groups") for part in parts.values())):
        return optimizer  # parameters or a state dict, which have a message of their own
    if not parts:
        raise BadInput(
            f"it is an empty {type(optimizer).__name__}",
            where="optimizer",
            expected="a torch.optim.Optimizer, or a list or dict of them",
            do="pass the optimizers of your training loop, or omit it",
        )
    for key, part in parts.items():
        if not hasattr(part, "param_groups"):
            hint = f"for example {EXAMPLE}" if isinstance(part, nn.Module) else "pass the optimizers alone"
            raise BadInput(
                f"it is a {type(part).__name__}",
                where=f"optimizer[{key!r}]",
                expected="a torch.optim.Optimizer in each place",
                do=hint,
            )
        twice = [other for other, earlier in parts.items() if earlier is part and other != key]
        if twice:
            raise BadInput(
                f"it is the same object as optimizer[{twice[0]!r}]",
                where=f"optimizer[{key!r}]",
                expected="an optimizer of its own in each place",
                do="pass each optimizer once",
            )
        if isinstance(part, torch.optim.LBFGS) and not has_step:
            raise BadInput(
                "it is LBFGS, whose step needs a closure, beside others",
                where=f"optimizer[{key!r}]",
                expected="the train_step that calls each optimizer",
                do=f"for example {EXAMPLE}",
            )
    return SeveralOptimizers(parts, is_dict=isinstance(optimizer, Mapping))


def _named_parts(value: Any) -> dict[Any, Any] | None:
    """Return the entries of a plain dict, list or tuple by their keys or places; None for anything else."""
    if isinstance(value, (nn.Module, torch.optim.Optimizer, torch.Tensor, str)):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    return dict(enumerate(value)) if isinstance(value, (list, tuple)) else None


def kind_of_model(model: nn.Module) -> str:
    """Return the class of a model, or the name and class of each of several networks."""
    if not vars(model).get("_is_several"):
        return type(model).__name__
    return ", ".join(f"{name}: {type(part).__name__}" for name, part in model.named_children())


def kind_of_optimizer(optimizer: Any) -> str:
    """Return the class of an optimizer, or the place and class of each of several; of none, what is assumed."""
    if optimizer is None:
        return "Adam(lr=0.0003), assumed"
    if not isinstance(optimizer, SeveralOptimizers):
        return type(optimizer).__name__
    return ", ".join(f"{name}: {type(part).__name__}" for name, part in optimizer.parts.items())


class SeveralOptimizers:
    """Several optimizers that step and clear together, and are reached as in the list or dict that the user passed.

    `optimizer` is the first of them, as wrappers call the one inside.
    """

    def __init__(self, parts: dict[Any, Any], *, is_dict: bool) -> None:
        self.parts, self.is_dict = dict(parts), is_dict
        self.optimizer = next(iter(self.parts.values()))

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all of them, in their order."""
        return [group for part in self.parts.values() for group in part.param_groups]

    @property
    def state(self) -> Mapping[Any, Any]:
        """The state of every parameter."""
        return ChainMap(*(part.state for part in self.parts.values() if hasattr(part, "state")))

    @property
    def defaults(self) -> dict[str, Any]:
        """The default options of the first one."""
        return dict(getattr(self.optimizer, "defaults", {}))

    def step(self, closure: Any = None) -> Any:
        """Let each of them step."""
        loss = closure() if closure is not None else None
        for part in self.parts.values():
            part.step()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of each of them."""
        for part in self.parts.values():
            part.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[Any, Any]:
        """Return the state of each of them by its place."""
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Load the state of each of them by its place."""
        for name, part in self.parts.items():
            part.load_state_dict(state[name])

    def __getitem__(self, place: Any) -> Any:
        return self.parts[place] if self.is_dict else list(self.parts.values())[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts if self.is_dict else self.parts.values())

    def __len__(self) -> int:
        return len(self.parts)

    def __contains__(self, item: Any) -> bool:
        return item in self.parts if self.is_dict else any(item is part for part in self.parts.values())

    def keys(self) -> Any:
        """Return the names, as a dict does."""
        return self.parts.keys()

    def values(self) -> Any:
        """Return the optimizers, as a dict does."""
        return self.parts.values()

    def items(self) -> Any:
        """Return names and optimizers, as a dict does."""
        return self.parts.items()

    def get(self, name: Any, default: Any = None) -> Any:
        """Return one of them by its name, as a dict does."""
        return self.parts.get(name, default)


def _check_network(model: Any, key: Any, part: Any) -> None:
    where = f"model[{key!r}]"
    if not isinstance(part, nn.Module):
        is_optimizer = hasattr(part, "param_groups")
        raise BadInput(
            f"it is a {type(part).__name__}",
            where=where,
            expected="a torch.nn.Module in each place",
            do="pass optimizers as optimizer={…}" if is_optimizer else "pass the networks alone",
        )
    if not isinstance(model, Mapping):
        return
    if not isinstance(key, str) or not key or "." in key or hasattr(nn.ModuleDict(), key):
        raise BadInput(
            f"its key {key!r} cannot name a network: nn.ModuleDict wants texts without dots, and no names of its own",
            where="model",
            expected='names such as "generator" and "critic"',
            do="rename the key",
        )
