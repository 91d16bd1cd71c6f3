"""A set-up on the operating table: what a fault needs to know about it, and how it is changed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

from nbdebug.setup import Batch, Setup
from nbdebug.setup.loss import main_output

ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.PReLU)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)
WEIGHTY = (nn.Linear, nn.Conv1d, nn.Conv2d)


class DoesNotFit(Exception):
    """The fault cannot be put into this set-up, or would do no harm there."""


class Rows(Dataset[Any]):
    """Columns under keys: a sample is a tuple where the keys are numbers, and a dictionary otherwise."""

    def __init__(self, columns: dict[Any, torch.Tensor]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> Any:
        """Return one sample."""
        sample = {key: column[index] for key, column in self.columns.items()}
        return sample if isinstance(next(iter(sample)), str) else tuple(sample.values())


class Case:
    """A set-up that is about to get a fault."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.model: nn.Module = setup["model"]
        self.loss_fn = setup.get("loss_fn")

    @functools.cached_property
    def batch(self) -> Batch:
        """One batch, read as nbdebug reads it; drawn without moving the random numbers on."""
        with torch.random.fork_rng():
            return Setup(**{**self.setup, "model": self.model}).batches(1)[0]

    @property
    def target(self) -> torch.Tensor:
        """The target of the batch."""
        self.require(self.batch.has_target and isinstance(self.batch.target, torch.Tensor))
        return self.batch.target

    @functools.cached_property
    def output(self) -> torch.Tensor:
        """What the model says about the batch, in eval mode."""
        found = main_output(self.run(self.batch))
        self.require(found is not None)
        return found

    def run(self, batch: Batch) -> Any:
        """Run the model in eval mode and leave no trace."""
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        with torch.no_grad(), torch.random.fork_rng():
            output = self.model(*batch.args, **batch.kwargs)
        for module, mode in modes:
            module.training = mode
        return output

    @staticmethod
    def require(condition: bool) -> None:
        """Return up on this set-up unless something holds."""
        if not condition:
            raise DoesNotFit

    def require_plain(self) -> None:
        """Return up unless loss and step are the plain ones."""
        self.require("compute_loss" not in self.setup and "train_step" not in self.setup and self.loss_fn is not None)

    @property
    def is_classification(self) -> bool:
        """Whether the targets are class ids that the outputs score."""
        return (
            self.batch.has_target
            and isinstance(self.batch.target, torch.Tensor)
            and not self.batch.target.is_floating_point()
            and self.output.dim() == self.batch.target.dim() + 1
        )

    @property
    def is_regression(self) -> bool:
        """Whether the targets are real numbers with one output for each."""
        return (
            self.batch.has_target
            and isinstance(self.loss_fn, (nn.MSELoss, nn.HuberLoss))
            and self.output.numel() == self.batch.target.numel()
        )

    # --- modules ---

    def called(self, *kinds: type[nn.Module]) -> list[tuple[str, nn.Module, torch.Tensor]]:
        """Return the modules of these kinds in the order of their first call, with the tensor that each received."""
        seen: dict[str, tuple[str, nn.Module, torch.Tensor]] = {}

        def note(path: str) -> Any:
            def hook(module: nn.Module, args: Any) -> None:
                if args and isinstance(args[0], torch.Tensor):
                    seen.setdefault(path, (path, module, args[0].detach()))

            return hook

        handles = [m.register_forward_pre_hook(note(p)) for p, m in self.model.named_modules() if isinstance(m, kinds)]
        self.run(self.batch)
        for handle in handles:
            handle.remove()
        return list(seen.values())

    def weighty(self) -> list[tuple[str, nn.Module, torch.Tensor]]:
        """Return the trainable linear and convolutional layers in the order of their calls."""
        return [
            found
            for found in self.called(*WEIGHTY)
            if type(found[1]).__name__ in ("Linear", "Conv1d", "Conv2d")
            and isinstance(found[1]._parameters.get("weight"), nn.Parameter)
            and found[1].weight.requires_grad
        ]

    def hidden(self) -> tuple[str, nn.Module, torch.Tensor]:
        """Return a layer in the middle: neither the first nor without samples in dimension 0 of its input."""
        layers = [found for found in self.weighty()[1:] if found[2].shape[0] == self.batch.size and found[2].dim() >= 2]
        self.require(bool(layers) and self.batch.size > 2)
        return layers[len(layers) // 2]

    def exchange(self, path: str, new: nn.Module) -> None:
        """Put another module in a module's place."""
        parent, _, name = path.rpartition(".")
        setattr(self.model.get_submodule(parent), name, new)

    def new_optimizer(self, parameters: Any = None) -> None:
        """Make the optimizer anew with the same settings, over all parameters or over these."""
        old = self.setup["optimizer"]
        self.require("scheduler" not in self.setup and len(old.param_groups) == 1)
        parameters = list(self.model.parameters() if parameters is None else parameters)
        self.require(bool(parameters))
        known = inspect.signature(type(old)).parameters
        settings = {k: v for k, v in old.param_groups[0].items() if k in known and k != "params"}
        self.setup["optimizer"] = type(old)(parameters, **settings)

    # --- data ---

    def columns(self, name: str = "loader") -> dict[Any, torch.Tensor]:
        """Return the whole data set of a loader as columns, by the batch's own keys."""
        loader = self.setup.get(name)
        self.require(isinstance(loader, DataLoader) and hasattr(loader.dataset, "__getitem__"))
        if isinstance(loader.dataset, TensorDataset):
            return dict(enumerate(column.clone() for column in loader.dataset.tensors))
        self.require(type(loader.dataset).__name__ in ("Encodings", "Named"))  # others draw anew at every reading
        whole = torch.utils.data.default_collate([loader.dataset[i] for i in range(len(loader.dataset))])
        return {key: column.clone() for key, column in whole.items()}

    def feed(self, columns: dict[Any, torch.Tensor] | Dataset[Any], name: str = "loader", **options: Any) -> None:
        """Let a loader draw from these columns from now on, in the same way as before."""
        old = self.setup[name]
        weighted = not isinstance(old.sampler, RandomSampler) and type(old.sampler).__name__ != "SequentialSampler"
        usual = {"sampler": old.sampler} if weighted else {"shuffle": isinstance(old.sampler, RandomSampler)}
        if isinstance(columns, dict):
            numbered = not isinstance(next(iter(columns)), str)
            columns = TensorDataset(*columns.values()) if numbered else Rows(columns)
        if "batch_sampler" in options:
            self.setup[name] = DataLoader(columns, **options)
            return
        if "sampler" in options or "shuffle" in options:
            usual = {}
        self.setup[name] = DataLoader(columns, **{"batch_size": old.batch_size, **usual, **options})

    @property
    def target_key(self) -> Any:
        """The key of the target among the columns."""
        self.require(self.batch.has_target and len(self.batch.reading.target) == 1)
        return self.batch.reading.target[0]

    @property
    def input_keys(self) -> list[Any]:
        """The keys of the inputs among the columns, those of real numbers only."""
        keys = [path[0] for path in self.batch.reading.input_paths if len(path) == 1]
        columns = self.columns()
        found = [key for key in keys if key in columns and columns[key].is_floating_point() and key != self._target()]
        self.require(bool(found))
        return found

    def _target(self) -> Any:
        return self.batch.reading.target[0] if self.batch.has_target else None

    def change(self, keys: Any, how: Callable[[torch.Tensor], torch.Tensor], val: bool = True) -> None:
        """Change columns in the training data, and in the validation data unless told otherwise."""
        for name in ("loader", "val_loader") if val and self.setup.get("val_loader") is not None else ("loader",):
            columns = self.columns(name)
            for key in keys:
                columns[key] = how(columns[key])
            self.feed(columns, name)


def edited(module: nn.Module, after: Any = None, before: Any = None, around: Any = None) -> None:
    """Edit the forward of one module in place, as if its author had written it so."""
    kind = type(module)

    @functools.wraps(kind.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if around is not None:
            return around(functools.partial(kind.forward, self), *args, **kwargs)
        if before is not None:
            args = (before(args[0]), *args[1:])
        output = kind.forward(self, *args, **kwargs)
        return after(output) if after is not None else output

    module.__class__ = type(kind.__name__, (kind,), {"forward": forward})
