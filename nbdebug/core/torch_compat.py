"""The one place that uses private names of torch, each under a name that says what it is; for torch 2.4 and newer.

What torch promises needs no entry here. Names that are read in every step of a watched training are plain aliases, so
that they cost nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from operator import attrgetter, methodcaller
from types import CodeType
from typing import Any, cast

import torch
from torch import nn
from torch.autograd import graph
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils.data._utils import signal_handling, worker

# Base classes of layers.
BatchNorm = nn.modules.batchnorm._BatchNorm
RunningNorm = nn.modules.batchnorm._NormBase  # batch and instance norm: they may keep running statistics
Convolution = nn.modules.conv._ConvNd
Dropout = nn.modules.dropout._DropoutNd

# What a module holds by itself, not its submodules: the dictionaries themselves, and their names in `vars(module)`.
REGISTRIES = ("_parameters", "_buffers", "_modules")
own_parameters: Callable[[nn.Module], dict[str, nn.Parameter | None]] = attrgetter("_parameters")
own_buffers: Callable[[nn.Module], dict[str, torch.Tensor | None]] = attrgetter("_buffers")
own_modules: Callable[[nn.Module], dict[str, nn.Module | None]] = attrgetter("_modules")

# Hooks: the dictionaries that hold them, and the names of those of optimizers, which a wrapper of one does not have.
forward_hooks: Callable[[nn.Module], dict[int, Any]] = attrgetter("_forward_hooks")
forward_pre_hooks: Callable[[nn.Module], dict[int, Any]] = attrgetter("_forward_pre_hooks")
module_hooks: Callable[[nn.Module], tuple[dict[int, Any], ...]] = attrgetter(
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
)
gradient_hooks: Callable[[torch.Tensor], dict[int, Any] | None] = attrgetter("_backward_hooks")
accumulation_hooks: Callable[[torch.Tensor], dict[int, Any] | None] = attrgetter("_post_accumulate_grad_hooks")
OPTIMIZER_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")

# Tensors and operations.
write_count: Callable[[torch.Tensor], int] = attrgetter("_version")  # of writes in place; none in inference mode
is_transformed_tensor: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
base_of: Callable[[torch.Tensor], torch.Tensor | None] = attrgetter("_base")  # what a tensor is a view of
schema_of: Callable[[Any], Any] = attrgetter("_schema")  # of an operation that a TorchDispatchMode sees
loss_scale: Callable[[Any], torch.Tensor | None] = attrgetter("_scale")  # of a GradScaler; None before its first use
foreach_norm: Any = torch._foreach_norm  # of a list of tensors in one call

# What is running now.
is_transforming: Callable[[], bool] = torch._C._are_functorch_transforms_active  # inside of vmap, grad and the like
backward_id: Callable[[], int] = torch._C._current_graph_task_id  # a number for each backward pass; -1 outside of one
current_transform: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack  # of torch.func; None outside of one

# Code of torch that is looked for on the stack.
RUN_BACKWARD: CodeType | None = getattr(getattr(graph, "_engine_run_backward", None), "__code__", None)
MODULE_CALL = "_wrapped_call_impl"
SCALER_STEPS: tuple[CodeType, ...] = tuple(
    getattr(torch.amp.GradScaler, name).__code__
    for name in ("step", "_maybe_opt_step")
    if hasattr(torch.amp.GradScaler, name)
)

# torch.compile puts the module under this name into another one.
COMPILED_INSIDE = "_orig_mod"

# Attributes of a DataLoader: its live workers, and what its constructor sets anew.
ITERATOR = "_iterator"
SET_BY_CONSTRUCTOR = ("_DataLoader__", "_IterableDataset", "_dataset_kind")
shut_down_workers: Callable[[Any], None] = methodcaller("_shutdown_workers")  # of an iterator


def without_torch_function() -> Any:
    """Keep calls of torch functions from the modes that record them."""
    return torch._C.DisableTorchFunction()


def restores_call_hooks() -> list[Callable[[], Any]]:
    """Return what removes the hooks on all modules and the modes of torch functions that came since."""
    hooks, modes = nn.modules.module._global_forward_pre_hooks, torch._C._len_torch_function_stack()
    known = set(hooks)

    def remove_hooks() -> None:
        for key in [key for key in hooks if key not in known]:
            hooks.pop(key, None)

    def leave_modes() -> None:
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()

    return [remove_hooks, leave_modes]


def is_bookkeeping(name: str) -> bool:
    """Whether an attribute of a module is torch's own: what is registered, and its hooks."""
    return name in REGISTRIES or name.endswith(("_hooks", "_with_kwargs"))


def hook_gradient(tensor: torch.Tensor, node: Any) -> dict[int, Any]:
    """Return the dictionary of a tensor's gradient hooks, made where it has none; a handle for each hook costs more."""
    hooks: dict[int, Any] | None = tensor._backward_hooks
    if hooks is None:
        hooks = tensor._backward_hooks = OrderedDict()
        node._register_hook_dict(tensor)
    return hooks


def at_end_of_backward(callback: Callable[[], Any]) -> None:
    """Call a function when the backward pass that is running now has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def is_without_values() -> bool:
    """Whether torch.jit traces, torch.func transforms, or fake tensors stand for the real ones."""
    if torch._C._get_tracing_state() is not None or current_transform() is not None:
        return True
    kinds = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(kind) is not None for kind in (kinds.FAKE, kinds.PROXY, kinds.FUNCTIONAL))


def inside_compiled(model: Any) -> Any:
    """Return the module that torch.compile was given; None where this one is not compiled."""
    return getattr(model, COMPILED_INSIDE, None)


def is_compiled(module: nn.Module) -> bool:
    """Whether a module is compiled as a whole, in one way or the other."""
    return COMPILED_INSIDE in module._modules or has_compiled_call(module)


def has_compiled_call(module: nn.Module) -> bool:
    """Whether `module.compile()` was called: hooks are compiled with it, and new ones are not seen."""
    return getattr(module, "_compiled_call_impl", None) is not None


def has_compiled_forward(module: nn.Module) -> bool:
    """Whether `forward` is compiled, and not left out again by torch.compiler.disable."""
    forward = module.forward
    is_wrapped = getattr(forward, "_torchdynamo_orig_callable", None) is not None
    return is_wrapped and not getattr(forward, "_torchdynamo_disable", False)


def script_schema(module: Any) -> Any:
    """Read the schema of a scripted forward; asking for `module.forward` would leave a cache in the user's module."""
    try:
        return module._c._get_method("forward").schema
    except (AttributeError, RuntimeError):
        return None


def apply_to_state(module: nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change all parameters and buffers of a module, as `.to` and `.half` do."""
    module._apply(change)


def function_of(node: Any) -> Any:
    """Return the torch.autograd.Function that made a node of the graph; None for torch's own operations."""
    return getattr(type(node), "_forward_cls", None)


def saved_values(node: Any) -> Iterator[tuple[str, Any]]:
    """Return the values that a node of the graph kept from the forward pass, by name."""
    for name in ("self", "other", "result", "exponent"):
        try:
            yield name, getattr(node, f"_saved_{name}", None)
        except RuntimeError:  # a checkpoint lets each value be read once
            return


def count_steps(optimizer: Any) -> None:
    """Mark `step` as a scheduler does, or the scheduler would warn that it was overridden."""
    take_step = type(optimizer).step

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True
        return take_step(optimizer, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


def worker_processes(iterator: Any) -> list[Any]:
    """Return the processes that load for a DataLoader's iterator."""
    return list(getattr(iterator, "_workers", ()))


def is_sigchld_handled() -> bool:
    """Whether a DataLoader has set its handler for workers that end, which it does once and for all."""
    return bool(signal_handling._SIGCHLD_handler_set)


def forget_sigchld() -> None:
    """Let the next DataLoader set its handler again."""
    signal_handling._SIGCHLD_handler_set = False


def has_communication_hook(wrapper: Any) -> bool:
    """Whether the user told a DistributedDataParallel how to average."""
    return bool(getattr(wrapper, "_comm_hooks", ()))


def meshes_of_data(module: Any) -> list[Any]:
    """Return the meshes along which `fully_shard` divides a module's parameters and the data."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    return [group.mesh_info.mesh for group in groups if group is not None]


def is_sharding_state(name: str, value: Any) -> bool:
    """Whether an attribute or a hook of a module was put there by torch's sharding."""
    origin = getattr(value, "__func__", getattr(value, "func", value))
    module = getattr(origin, "__module__", None) or type(value).__module__
    return name.startswith("__composable_api") or str(module).startswith("torch.distributed.")


def has_arrived(tensor: Any) -> Any:
    """Return what a tensor that waits for other processes holds, once it was used; None before; others as they are."""
    waits = getattr(type(tensor), "trigger_wait", None)
    return tensor if waits is None else tensor.elem if tensor.completed else None


def default_store() -> Any:
    """Return the store in which the processes met; None where they met in another way, as by MPI."""
    from torch.distributed import distributed_c10d

    try:
        return distributed_c10d._get_default_store()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def process_groups() -> Any:
    """Return torch's record of all process groups, with the default one."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._world


def single_process_group(name: str) -> tuple[Any, Any]:
    """Return a process group of this process alone and its store, made without a collective."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore
    from torch.distributed import distributed_c10d

    store, kind = HashStore(), cast("Any", dist.ProcessGroup)
    backend = dist.ProcessGroupGloo(store, 0, 1, timedelta(seconds=60))
    try:
        group = kind(store, 0, 1)
    except TypeError:  # before torch 2.6
        group = kind(store, 0, 1, kind.Options(backend="gloo"))
    for device in ("cpu", "cuda"):
        if device == "cpu" or torch.cuda.is_available():
            group._register_backend(torch.device(device), kind.BackendType.GLOO, backend)
    group._set_group_name(getattr(distributed_c10d, "GroupName", str)(name))  # a type of its own in newer versions
    return group, store


@contextmanager
def in_worker(index: int, count: int, dataset: Any) -> Iterator[None]:
    """Let `torch.utils.data.get_worker_info` say, inside the block, that this is one of so many worker processes."""
    before = worker._worker_info
    try:
        worker._worker_info = worker.WorkerInfo(id=index, num_workers=count, seed=index, dataset=dataset)
        yield
    finally:
        worker._worker_info = before
