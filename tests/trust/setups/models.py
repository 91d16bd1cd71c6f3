"""Models of every build."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from tests.trust.setups import adam, case, classify, loader, mlp, rows, trained


@case(quick=True)
def plain() -> dict[str, Any]:
    model = mlp(nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
    optimizer = adam(model)
    trained(model, optimizer)
    return classify(model, optimizer=optimizer)


@case()
def nothing_but_model_and_loader() -> dict[str, Any]:
    return {"model": mlp(), "loader": loader()}


@case(quick=True)
def tied() -> dict[str, Any]:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    tokens = torch.randint(0, 11, (16, 5))
    model = Tied()
    data = torch.utils.data.TensorDataset(tokens, tokens.roll(-1, 1))
    return {"model": model, "loader": loader(data), "optimizer": adam(model)}


@case()
def shared_submodule() -> dict[str, Any]:
    same = nn.Linear(6, 6)
    return classify(nn.Sequential(same, nn.Tanh(), same, nn.Linear(6, 3)))


@case(quick=True)
def lazy() -> dict[str, Any]:
    return classify(nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3)))


@case(quick=True)
def compiled() -> dict[str, Any]:
    inner = mlp()
    model = torch.compile(inner, backend="eager")
    model(torch.randn(4, 6))
    return classify(model, optimizer=adam(inner))


@case()
def compiled_in_place() -> dict[str, Any]:
    model = mlp()
    model.compile(backend="eager")
    model(torch.randn(4, 6))
    return classify(model)


@case()
def compiled_inside() -> dict[str, Any]:
    inner = torch.compile(nn.Sequential(nn.Linear(6, 8), nn.ReLU()), backend="eager")
    model = nn.Sequential(inner, nn.Linear(8, 3))
    model(torch.randn(4, 6))
    return classify(model, optimizer=adam(model))


@case(quick=True)
def scripted() -> dict[str, Any]:
    model = torch.jit.script(mlp())
    return classify(model, optimizer=adam(model))


@case()
def traced() -> dict[str, Any]:
    return classify(torch.jit.trace(mlp(), torch.randn(8, 6)))


@case()
def script_inside() -> dict[str, Any]:
    model = nn.Sequential(torch.jit.script(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    return classify(model, optimizer=adam(model))


@case()
def wrapped_in_ddp() -> dict[str, Any]:
    if not torch.distributed.is_initialized():
        meeting = Path(tempfile.gettempdir()) / "meeting-point"
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=0, world_size=1)
    model = nn.parallel.DistributedDataParallel(mlp())
    return classify(model, optimizer=adam(model))


@case()
def wrapped_in_data_parallel() -> dict[str, Any]:
    return classify(nn.DataParallel(mlp()))


@case()
def spectral_norm_old() -> dict[str, Any]:
    return classify(mlp(nn.ReLU(), nn.utils.spectral_norm(nn.Linear(8, 8))))


@case(quick=True)
def spectral_norm_parametrized() -> dict[str, Any]:
    return classify(mlp(nn.ReLU(), parametrizations.spectral_norm(nn.Linear(8, 8))))


@case(quick=True)
def weight_norm_old() -> dict[str, Any]:
    model = mlp(nn.ReLU(), nn.utils.weight_norm(nn.Linear(8, 8)))
    model(torch.randn(4, 6))
    return classify(model, optimizer=adam(model))


@case()
def weight_norm_parametrized() -> dict[str, Any]:
    return classify(mlp(nn.ReLU(), parametrizations.weight_norm(nn.Linear(8, 8))))


@case()
def pruned() -> dict[str, Any]:
    model = mlp()
    prune.l1_unstructured(model[0], "weight", amount=0.4)
    model(torch.randn(4, 6))
    return classify(model, optimizer=adam(model))


@case()
def parametrized() -> dict[str, Any]:
    class Symmetric(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight.triu() + weight.triu(1).T

    middle = nn.Linear(8, 8)
    parametrize.register_parametrization(middle, "weight", Symmetric())
    return classify(mlp(middle))


@case(quick=True)
def checkpointed() -> dict[str, Any]:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = mlp(nn.ReLU(), nn.Dropout(0.2)), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(checkpoint(self.body, x, use_reentrant=False))

    return classify(Checkpointed())


@case(quick=True)
def frozen_batchnorm() -> dict[str, Any]:
    model = mlp(nn.BatchNorm1d(8), nn.ReLU())
    model.train()
    model[1].eval()
    for parameter in model[1].parameters():
        parameter.requires_grad_(False)
    return classify(model, optimizer=adam(model))


@case()
def left_in_eval_mode() -> dict[str, Any]:
    return classify(mlp(nn.BatchNorm1d(8), nn.ReLU()).eval())


@case()
def half_frozen() -> dict[str, Any]:
    model = mlp()
    model[0].requires_grad_(False)
    return classify(model, optimizer=adam(model))


@case()
def double_precision() -> dict[str, Any]:
    data = rows()
    values = data.tensors[0].double()
    return classify(mlp().double(), loader=loader(torch.utils.data.TensorDataset(values, data.tensors[1])))


@case()
def bfloat16() -> dict[str, Any]:
    data = rows()
    values = data.tensors[0].bfloat16()
    return classify(mlp().bfloat16(), loader=loader(torch.utils.data.TensorDataset(values, data.tensors[1])))


@case()
def complex_numbers() -> dict[str, Any]:
    model = nn.Linear(4, 2, dtype=torch.complex64)
    values = torch.randn(16, 4, dtype=torch.complex64)
    return {"model": model, "loader": [(values[:8], values[:8, :2]), (values[8:], values[8:, :2])]}


@case()
def integers_and_bools() -> dict[str, Any]:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 2)

        def forward(self, counts: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
            return self.head(counts.float() * flags)

    batch = (torch.randint(0, 9, (8, 6)), torch.rand(8, 6) > 0.5, torch.randint(0, 2, (8,)))
    return {"model": Counts(), "loader": [batch, batch]}


@case()
def sparse_embedding() -> dict[str, Any]:
    model = nn.Sequential(nn.Embedding(20, 4, sparse=True), nn.Flatten(), nn.Linear(12, 3))
    optimizer = torch.optim.SparseAdam(model[0].parameters(), lr=1e-2)
    batch = (torch.randint(0, 20, (8, 3)), torch.randint(0, 3, (8,)))
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()
    return {"model": model, "loader": [batch] * 3, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@case()
def no_parameters() -> dict[str, Any]:
    return {"model": nn.Sequential(nn.Flatten(), nn.Softmax(1)), "loader": loader(), "loss_fn": nn.CrossEntropyLoss()}


@case(refused=True, quick=True)
def on_the_meta_device() -> dict[str, Any]:
    with torch.device("meta"):
        model = mlp()
    return classify(model)


@case(around=torch.inference_mode)
def made_and_called_in_inference_mode() -> dict[str, Any]:
    with torch.inference_mode():
        return classify(mlp(nn.BatchNorm1d(8), nn.ReLU()))


@case(around=torch.no_grad, quick=True)
def called_without_gradients() -> dict[str, Any]:
    return classify(mlp())


@case(in_thread=True, quick=True)
def called_from_a_thread() -> dict[str, Any]:
    model = mlp()
    return classify(model, optimizer=adam(model))


@case(around=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
def called_under_autocast() -> dict[str, Any]:
    return classify(mlp())
