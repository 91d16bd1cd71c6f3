"""Imports point one way, and what need not be imported is not."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
import typing
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed import distributed_c10d

import nbdebug
from nbdebug.core.registry import CheckSpec, registry
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup

PACKAGE = Path(nbdebug.__file__).parent

# Each layer may import itself and those before it; the longest name that fits says where a module stands.
LAYERS: list[tuple[str, ...]] = [
    ("errors",),
    ("core", "charts"),
    ("setup",),
    ("setup.distributed",),
    ("sandbox",),
    ("watch.recorder",),
    ("experiments",),
    ("evidence",),
    ("checks",),
    ("engine.decision_tree", "engine.ranking", "engine.explanation"),
    ("engine.probe_runner", "engine.session"),
    ("report",),
    ("fixes",),
    ("engine",),
    ("watch", "engine.explain_error"),
    ("improve", "engine.bisection", "views", "widgets", "integrations", "__main__"),
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(module: str) -> str:
    """Return the longest name among the layers that a module of the package belongs to; empty where there is none."""
    steps = module.split(".")
    return next((name for n in range(len(steps), 0, -1) if (name := ".".join(steps[:n])) in RANK), "")


def module_of(path: Path) -> str:
    """Return the dotted name of a file below the package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, *, lazy: bool = False) -> set[str]:
    """Return the modules that a file imports when it is imported; with `lazy`, also those inside functions."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    nodes = list(ast.walk(tree)) if lazy else list(_at_import(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names if node.module == "nbdebug"}
    return found


def _at_import(node: ast.AST) -> list[ast.AST]:
    """Return the nodes that run at import: not those in functions, nor those for type checkers."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        found += [child, *_at_import(child)]
    return found


def ours(names: set[str]) -> set[str]:
    """Return the modules of the package among these, without its name."""
    return {name.removeprefix("nbdebug.") for name in names if name.startswith("nbdebug.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(module_of(path))
    assert part, f"{module_of(path)} has no place among the layers; give it one"
    above = {other for other in ours(imports(path)) if (at := part_of(other)) and RANK[at] > RANK[part]}
    assert not above, f"{part} imports {', '.join(sorted(above))}, which stand above it"


@pytest.mark.parametrize("check", registry.load().checks.values(), ids=lambda check: check.id)
def test_checks_judge_evidence_alone(check: CheckSpec) -> None:
    """A check is a pure function of frozen dataclasses, so that its verdict can be tested with numbers."""
    for need in check.needs.values():
        assert dataclasses.is_dataclass(need.kind), need.kind
        assert need.kind.__dataclass_params__.frozen, need.kind
        assert not issubclass(need.kind, (Sandbox, Setup))


def test_tensors_stop_before_evidence() -> None:
    """No field of evidence is declared to hold a tensor or a module."""
    for kind in registry.load().probes:
        held = {name: hint for name, hint in typing.get_type_hints(kind).items() if "torch" in str(hint)}
        assert not held, f"{kind.__name__} holds {held}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_below_knows_widgets(path: Path) -> None:
    if part_of(module_of(path)) in {"widgets", "integrations", "watch", "views", "report", "__main__"}:
        return
    names = {name.split(".")[0] for name in imports(path, lazy=True)}
    assert not names & {"ipywidgets", "anywidget", "bqplot", "IPython", "traitlets"}
    assert "widgets" not in {name.split(".")[0] for name in ours(imports(path, lazy=True))}


USE_PRIVATE_TORCH = {"core.torch_compat"}  # and no other file
OPERATIONS = {
    "_fused_dropout",
    "_is_view",
    "_set_grad_enabled",
}  # names that are seen when a model runs, and never called


@cache
def private_torch() -> frozenset[str]:
    """Return the private names of what torch hands out: modules, layers, tensors, nodes, optimizers, loaders."""
    layer, tensor = nn.Linear(1, 1), torch.ones(1, requires_grad=True)
    optimizer, loader = torch.optim.SGD(layer.parameters()), torch.utils.data.DataLoader([0])
    holders = (
        torch, torch._C, torch._C._functorch, torch.utils, torch.autograd, torch.autograd.graph, distributed_c10d,
        nn.modules.module, nn.modules.batchnorm, nn.modules.conv, nn.modules.dropout, layer, tensor,
        (tensor * 2).grad_fn, torch.autograd.Variable, optimizer, torch.optim.lr_scheduler, loader, iter(loader),
        torch.amp.GradScaler("cpu"), nn.parallel.DistributedDataParallel,
        torch.utils.data.dataloader._MultiProcessingDataLoaderIter,
    )  # fmt: skip
    names = {name for holder in holders for name in dir(holder)} | {"_orig_mod", "_forward_cls", "_workers"}
    return frozenset(name for name in names - OPERATIONS if re.fullmatch(r"_[A-Za-z]\w+", name))


def uses_of_private_torch(code: str) -> list[str]:
    """Return the private names of torch that code imports, asks another object than `self` for, or holds as text."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            path = f"{node.module}." + ".".join(alias.name for alias in node.names)
            found += [path] if "._" in path else []
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith("torch.") and "._" in a.name]
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            found += [node.attr] if node.attr in private_torch() else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if node.value in private_torch() else []
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_names_of_torch_are_used_in_one_place(path: Path) -> None:
    uses = uses_of_private_torch(path.read_text())
    assert not uses or module_of(path) in USE_PRIVATE_TORCH, f"name {', '.join(uses)} in core/torch_compat.py"


@pytest.mark.parametrize(
    "code",
    [
        "from torch._C import _functorch",
        "from torch.nn.modules.conv import _ConvNd",
        "import torch.utils._pytree",
        "torch._foreach_norm(values)",
        "tensor._version",
        "getattr(model, '_orig_mod', None)",
        "module._parameters['weight']",
    ],
)
def test_private_names_of_torch_are_seen(code: str) -> None:
    assert uses_of_private_torch(code)


BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Block())
"""


def without(*names: str) -> str:
    """Return the lines that make these packages look as if they were not installed."""
    return f"BLOCKED = {set(names)!r}\n{BLOCK}\n"


def run(code: str) -> str:
    """Run a few lines in a fresh interpreter and give what they print."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_costs_nothing() -> None:
    heavy = "torch pandas IPython ipywidgets sklearn matplotlib numpy scipy"
    assert run(f"import sys, nbdebug; print([n for n in '{heavy}'.split() if n in sys.modules])") == "[]"


def test_explain_needs_no_notebook() -> None:
    block = without("IPython", "ipywidgets")
    said = run(f"{block}import nbdebug; print(nbdebug.explain('batch-mixing')); print(len(nbdebug.list_checks()))")
    assert "batch-mixing" in said and int(said.splitlines()[-1]) > 10


def test_diagnose_needs_no_notebook() -> None:
    block = without("IPython", "ipywidgets", "bqplot", "anywidget")
    code = "import nbdebug, torch; m = torch.nn.Linear(4, 2); b = (torch.randn(8, 4), torch.tensor([0, 1] * 4))"
    call = "print(nbdebug.diagnose(m, [b], checks=['forward-fails'], progress=False).results[0].status)"
    assert run(f"{block}{code}; {call}") == "clean"


def test_the_first_call_draws_no_random_number() -> None:
    """In a fresh interpreter, where everything is still to be imported."""
    assert run(FRESH) == "same"


FRESH = """
import random, numpy, torch
random.seed(3); numpy.random.seed(3); torch.manual_seed(3)
expected = random.random(), numpy.random.rand(), float(torch.rand(()))
random.seed(3); numpy.random.seed(3); torch.manual_seed(3)
model, batch = torch.nn.Linear(4, 2), (torch.zeros(8, 4), torch.tensor([0, 1] * 4))
random.seed(3); numpy.random.seed(3); torch.manual_seed(3)
import nbdebug
str(nbdebug.diagnose(model, [batch], checks=["forward-fails", "cannot-overfit-batch"], progress=False))
print("same" if (random.random(), numpy.random.rand(), float(torch.rand(()))) == expected else "moved on")
"""
