"""Refuse what cannot be examined, with a message that says what to hand over instead."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from nbdebug.errors import BadInput
from nbdebug.setup.several import SeveralOptimizers

__all__ = ["checked_setup"]


def checked_setup(
    model: Any,
    loss_fn: Any,
    optimizer: Any,
    *,
    train_step: Any,
    compute_loss: Any,
    class_names: Any,
    loss_parts: Any = None,
    scheduler: Any = None,
) -> None:
    """Look at every argument before anything runs."""
    _check_model(model, is_called=train_step is None and compute_loss is None)
    _check_loss(loss_fn, model)
    if compute_loss is None:
        _check_arguments_of_loss(loss_fn)
    _check_optimizer(optimizer)
    _check_scheduler(scheduler)
    _check_function(train_step, "train_step", ("model", "batch", "loss_fn", "optimizer"))
    _check_function(compute_loss, "compute_loss", ("model", "batch", "loss_fn"))
    _check_function(loss_parts, "loss_parts", ("model", "batch", "loss_fn"))
    _check_names(class_names)


def _check_model(model: Any, *, is_called: bool) -> None:
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise _bad(
            "model",
            f"it is the class {model.__name__}, not a model",
            "a torch.nn.Module",
            f"call it: {model.__name__}(…)",
        )
    if isinstance(model, dict) and any(isinstance(value, torch.Tensor) for value in model.values()):
        raise _bad("model", "it is a state dict", "a torch.nn.Module", "load it into a model and pass the model")
    if not isinstance(model, nn.Module):
        raise _bad(
            "model",
            f"it is a {type(model).__name__}",
            "a torch.nn.Module",
            "pass the model first, then the loader: diagnose(model, loader)",
        )
    if is_called and getattr(type(model), "forward", None) is nn.Module.forward and "forward" not in vars(model):
        raise _bad(
            "model",
            f"it is a {type(model).__name__} without a forward, so it cannot be called",
            "a torch.nn.Module with a forward method",
            "pass the model that uses these modules, or the train_step or compute_loss that calls them",
        )
    _check_tensors(model)


def _check_tensors(model: nn.Module) -> None:
    sharded = [name for name, part in model.named_modules() if "FullyShardedDataParallel" in type(part).__name__]
    if sharded:
        raise _bad(
            "model",
            "it is wrapped in FullyShardedDataParallel, so this process holds only a part of it",
            "a model that is sharded by torch.distributed.fsdp.fully_shard, or not at all",
            "pass the model before it is wrapped, or shard it with fully_shard(model)",
        )
    tensors = (*model.named_parameters(), *model.named_buffers())
    meta = next((name for name, tensor in tensors if tensor.is_meta), None)
    if meta is not None:
        raise _bad(
            "model",
            f"its tensor {meta!r} is on the meta device and has no values",
            "a model with values",
            "call model.to_empty(device=…) and initialize it, or load its weights",
        )


def _check_loss(loss_fn: Any, model: Any) -> None:
    if loss_fn is not None and loss_fn is model:
        raise _bad(
            "loss_fn",
            "it is the model itself",
            "a function of output and target",
            "pass the loss, or omit it if the model returns its own loss",
        )
    if isinstance(loss_fn, torch.optim.Optimizer):
        raise _bad(
            "loss_fn",
            f"it is the optimizer {type(loss_fn).__name__}",
            "a function of output and target",
            "the order is model, loader, loss_fn, optimizer",
        )
    if isinstance(loss_fn, type):
        raise _bad(
            "loss_fn", f"it is the class {loss_fn.__name__}", "a loss that can be called", f"write {loss_fn.__name__}()"
        )
    if isinstance(loss_fn, torch.Tensor):
        raise _bad(
            "loss_fn",
            "it is a tensor, perhaps a loss already computed",
            "a function of output and target",
            "pass the function, not its value",
        )
    if isinstance(loss_fn, str):
        raise _bad(
            "loss_fn",
            f"it is the text {loss_fn[:40]!r}",
            "a function of output and target",
            "pass the function itself, for example torch.nn.CrossEntropyLoss()",
        )
    if loss_fn is not None and not callable(loss_fn):
        raise _bad(
            "loss_fn",
            f"it is a {type(loss_fn).__name__}, which cannot be called",
            "a function of output and target",
            "pass for example torch.nn.CrossEntropyLoss()",
        )


def _check_arguments_of_loss(loss_fn: Any) -> None:
    """Refuse a loss of three or more arguments, such as CTC, because they cannot be guessed."""
    if loss_fn is None:
        return
    function = loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn
    try:
        inspect.signature(function).bind("output", "target")
    except TypeError as error:
        raise _bad(
            "loss_fn",
            f"it cannot be called with (output, target): {error}",
            "a function of output and target",
            "define how the loss is computed from a batch: compute_loss=lambda model, batch, loss_fn: …",
        ) from None
    except ValueError:
        return  # a built-in without a signature: the first call will tell


def _check_scheduler(scheduler: Any) -> None:
    seen = ""
    if isinstance(scheduler, type):
        seen = f"it is the class {scheduler.__name__}"
    elif isinstance(scheduler, torch.optim.Optimizer):
        seen = f"it is the optimizer {type(scheduler).__name__}"
    elif isinstance(scheduler, (list, tuple, dict)):
        raise _bad(
            "scheduler",
            f"it is a {type(scheduler).__name__}",
            "one scheduler",
            "step several schedulers in your train_step, where nbdebug finds them by name, and omit this",
        )
    elif scheduler is not None and not callable(getattr(scheduler, "step", None)):
        seen = f"it is a {type(scheduler).__name__} without a step"
    if seen:
        raise _bad(
            "scheduler",
            seen,
            "a scheduler of your optimizer",
            "pass scheduler=torch.optim.lr_scheduler.StepLR(optimizer, …), or omit it",
        )


def _check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, SeveralOptimizers):
        for part in optimizer.parts.values():
            _check_optimizer(part)
    if optimizer is None:
        return
    if isinstance(optimizer, type):
        raise _bad(
            "optimizer",
            f"it is the class {optimizer.__name__}",
            "an optimizer of this model",
            f"write {optimizer.__name__}(model.parameters(), lr=…)",
        )
    if isinstance(optimizer, torch.optim.lr_scheduler.LRScheduler):
        raise _bad(
            "optimizer",
            f"it is the scheduler {type(optimizer).__name__}",
            "the optimizer",
            "pass optimizer=… and scheduler=…",
        )
    missing = [name for name in ("step", "zero_grad", "param_groups") if not hasattr(optimizer, name)]
    if missing:
        raise _bad(
            "optimizer",
            f"it is a {type(optimizer).__name__} without {', '.join(missing)}",
            "a torch.optim.Optimizer",
            "pass the optimizer of your training loop, or omit it",
        )


def _check_function(function: Any, name: str, parameters: tuple[str, ...]) -> None:
    if function is None:
        return
    if isinstance(function, type):
        raise _bad(
            name,
            f"it is the class {function.__name__}",
            f"a function {name}({', '.join(parameters)})",
            "pass a function",
        )
    wanted = f"a function {name}({', '.join(parameters)}) that returns the loss"
    if not callable(function):
        raise _bad(
            name, f"it is a {type(function).__name__}, which cannot be called", wanted, "pass the function itself"
        )
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise _bad(
            name,
            f"it cannot be called with ({', '.join(parameters)}): {error}",
            wanted,
            "give it these parameters, in this order",
        ) from None
    except ValueError:
        return  # a built-in without a signature: the first call will tell


def _check_names(names: Any) -> None:
    if isinstance(names, (str, bytes)):
        raise _bad(
            "class_names",
            f"it is the text {names!r}",
            "a list with one name per class",
            f"write class_names=[{names!r}, …]",
        )
    if names is not None and not hasattr(names, "__iter__"):
        raise _bad(
            "class_names",
            f"it is a {type(names).__name__}",
            "a list with one name per class",
            "pass a list of strings",
        )


def _bad(where: str, seen: str, expected: str, do: str) -> BadInput:
    return BadInput(seen, where=where, expected=expected, do=do)
