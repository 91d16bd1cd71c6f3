"""One layer object in several places of a stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.core.torch_compat import own_modules
from nbdebug.errors import NotApplicable
from nbdebug.evidence.field_tables import FieldTable, FieldTables
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.autograd_graph import builds_on
from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup.nested import first_tensor

__all__ = ["SharedLayer", "SharedLayers", "layers_share_weights", "shared_layers"]


@dataclass(frozen=True)
class SharedLayer:
    """One module under several names of one container; `chained` says that each call feeds the next one."""

    container: str
    names: tuple[str, ...]
    kind: str
    values: int
    chained: bool


@dataclass(frozen=True)
class SharedLayers:
    """All modules with parameters that a container holds more than once."""

    layers: tuple[SharedLayer, ...]


@probe
def shared_layers(sandbox: Sandbox, trial: TrialRun) -> SharedLayers:
    """Find modules that a container holds under several names, and in which order they are called."""
    require_run(trial)
    found = list(_repeated(sandbox.model))
    if not found:
        return SharedLayers(())
    sandbox.ready_to_train()
    given: dict[int, list[tuple[Any, Any]]] = {id(module): [] for _, _, module in found}

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if id(module) in given:
            given[id(module)].append((first_tensor(inputs), first_tensor(output)))

    with tapped(sandbox.model, after=after):
        kept = sandbox.run(sandbox.batch())  # so that its graph lives
    layers = tuple(
        SharedLayer(
            container,
            names,
            type(module).__name__,
            sum(p.numel() for p in module.parameters()),
            _is_chain(given[id(module)], len(names)),
        )
        for container, names, module in found
    )
    del kept
    return SharedLayers(layers)


def _repeated(model: nn.Module) -> Iterator[tuple[str, tuple[str, ...], nn.Module]]:
    """Return containers of nothing but one module with parameters, the names and that module."""
    if isinstance(model, torch.jit.ScriptModule):
        raise NotApplicable("the modules of a TorchScript model cannot be told apart")
    for path, module in model.named_modules():
        children = {name: child for name, child in own_modules(module).items() if child is not None}
        trained = {name: child for name, child in children.items() if any(p.requires_grad for p in child.parameters())}
        for child in {id(child): child for child in trained.values()}.values():
            names = tuple(name for name, other in trained.items() if other is child)
            if len(names) > 1 and len(names) == len(trained):
                yield path or "model", names, child


def _is_chain(calls: list[tuple[Any, Any]], names: int) -> bool:
    """Whether each call gets what is computed from the output of the call before."""
    if len(calls) < names:
        return False
    pairs = pairwise(calls)
    return all(
        isinstance(before, torch.Tensor) and isinstance(fed, torch.Tensor) and builds_on(fed, before)
        for (_, before), (fed, _) in pairs
    )


@check(basis="statistic", explains=("cannot-overfit-batch",))
def layers_share_weights(shared: SharedLayers, fields: FieldTables | None) -> Iterator[Finding]:
    """All layers of a stack, or all columns of a table, share weights that were meant to be their own.

    nbdebug looks for a container that holds one module with parameters under several names and nothing else to train,
    and in which each call feeds the next. Heads that share their weights on different inputs are only noted, as is
    everything in a model that learns.

    Why it matters: `[layer] * 6` does not make six layers. The stack has the parameters of one, and all its layers
    change together. Without offsets, user 3, item 3 and hour 3 are one row of the embedding.

    What to try: `nn.ModuleList(Block() for _ in range(6))`, or `copy.deepcopy` for each; add the offsets of the columns
    to the ids.
    """
    for table in fields.tables if fields is not None else ():
        yield _of_columns(table)
    for layer in shared.layers:
        yield Finding(
            f"The {len(layer.names)} layers of `{layer.container}` are one and the same {layer.kind} object and share "
            f"its {layer.values:,} values.",
            where=layer.container,
            severity="suspect" if layer.chained else "note",
            evidence={
                "names": list(layer.names),
                "values": layer.values,
                "each feeds the next": layer.chained,
                "threshold": "one object per layer",
                "source": "Python: [layer] * n repeats the reference",
            },
            remedies=(
                Remedy(
                    "Make a layer for each place.",
                    f"torch.nn.Sequential(*(copy.deepcopy(block) for _ in range({len(layer.names)})))",
                ),
            ),
        )


def _of_columns(table: FieldTable) -> Finding:
    read = max(table.sizes)
    sizes = " + ".join(str(size) for size in table.sizes[:6]) + (" + …" if len(table.sizes) > 6 else "")
    return Finding(
        f"The {len(table.sizes)} columns of ids share the first {read} of {table.rows} rows of `{table.path}`: it has "
        f"a row for each value of each column ({sizes}), but no offsets are added to the ids.",
        where=table.path,
        severity="suspect",
        is_contradiction=True,  # rows that nothing can read, exactly as many as the other columns need
        evidence={
            "rows": table.rows,
            "values of each column": list(table.sizes),
            "rows read": read,
            "threshold": "as many rows as are read",
            "source": "the ids of each column begin at 0",
        },
        remedies=(
            Remedy(
                "Add to the ids of each column the number of values of the columns before it.",
                "offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)\nx = self.embedding(x + offsets)",
            ),
        ),
    )
