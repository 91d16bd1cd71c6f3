"""How each peer is called, after its own README, and how what it says is read."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch

from nbdebug.setup import Batch, Setup
from tests.training import _step, loss_of

__all__ = ["PEERS"]

STEPS = 10  # of ordinary training, for the peers that watch a loop


def first_batch(given: dict[str, Any]) -> Batch:
    """Return the first batch of a set-up."""
    return Setup(**given).batches(1)[0]


def trained(given: dict[str, Any]) -> None:
    """Train for a few steps in the set-up's own way."""
    setup = Setup(**given)
    given["model"].train()
    for raw in islice(iter(given["loader"]), STEPS):
        _step(given, setup, raw)


def torchtest2(given: dict[str, Any]) -> set[str]:
    """`torchtest2.check_model(model, inputs, targets, loss_fn=…, optimizer=…)`; failures and warnings."""
    import torchtest2

    batch = first_batch(given)
    inputs: Any = batch.kwargs or (batch.args[0] if len(batch.args) == 1 else batch.args)
    report = torchtest2.check_model(
        given["model"], inputs, batch.target, loss_fn=given.get("loss_fn"), optimizer=given["optimizer"]
    )
    return {result.name for result in (*report.failures, *report.warnings)}


def torch_audit(given: dict[str, Any]) -> set[str]:
    """`autopatch(model, optimizer=…)` around an ordinary loop; every finding above information."""
    from torch_audit import autopatch

    auditor = autopatch(given["model"], optimizer=given["optimizer"], every_n_steps=1, reporters=[])
    try:
        trained(given)
        result = auditor.finish(report=False)
    finally:
        auditor.unpatch()
    return {finding.rule_id for finding in result.findings if finding.severity.value != "INFO"}


def preflight_ml(given: dict[str, Any]) -> set[str]:
    """What `preflight run --dataloader … --model … --loss … --val-dataloader …` calls; checks that did not pass."""
    from preflight.runner import run_checks

    results = run_checks(
        dataloader=given["loader"],
        model=given["model"],
        loss_fn=given.get("loss_fn"),
        config={"val_dataloader": given["val_loader"]} if given.get("val_loader") is not None else {},
    )
    return {result.name for result in results if not result.passed}


def torchdiag(given: dict[str, Any]) -> set[str]:
    """`summary`, `check_dead_neurons`, `verify_step` and `check_gradients`; every line under ISSUES or WARNINGS."""
    import torchdiag

    batch, out = first_batch(given), io.StringIO()
    with contextlib.redirect_stdout(out):
        torchdiag.summary(given["model"])
        if len(batch.args) == 1 and not batch.kwargs:
            torchdiag.check_dead_neurons(given["model"], batch.args[0])
            if given.get("loss_fn") is not None and "compute_loss" not in given:
                torchdiag.verify_step(given["model"], given["optimizer"], given["loss_fn"], batch.args[0], batch.target)
        given["optimizer"].zero_grad()
        loss_of(given, batch).backward()
        torchdiag.check_gradients(given["model"])
    lines = [line.strip() for line in out.getvalue().splitlines()]
    complaints = {line.split(":")[0] for line in lines if line.startswith("•")}
    return complaints | {line.split("—")[0].strip() for line in lines if line.startswith("✗")}


def neural_net_checklist(given: dict[str, Any]) -> set[str]:
    """`assert_all_for_classification_cross_entropy_loss`, or the one for causal language models."""
    from neural_net_checklist import torch_diagnostics

    batch, model = first_batch(given), given["model"]
    target = batch.target
    if not batch.has_target or target.is_floating_point() or len(batch.args) != 1 or "compute_loss" in given:
        return set()  # made for classification with cross-entropy
    with torch.no_grad():
        output = copy.deepcopy(model).eval()(batch.args[0])
    if not isinstance(output, torch.Tensor):
        return set()
    try:
        if target.dim() == 1:
            torch_diagnostics.assert_all_for_classification_cross_entropy_loss(
                lambda: copy.deepcopy(model), given["loader"], num_classes=output.shape[1], device="cpu"
            )
        elif output.shape[:2] == target.shape and not batch.args[0].is_floating_point():
            name = next(n for n, m in model.named_modules() if isinstance(m, torch.nn.Embedding))
            torch_diagnostics.assert_all_for_causal_llm_cross_entropy_loss(
                lambda: copy.deepcopy(model),
                given["loader"],
                embedding_layer_name=name,
                vocab_size=output.shape[-1],
                device="cpu",
            )
    except AssertionError as error:
        return {_first_words(str(error))}
    return set()


def torcheck(given: dict[str, Any]) -> set[str]:
    """All checks of the README added to the model, then an ordinary loop; it raises what it finds."""
    import torcheck

    registry = type(torcheck.register.__self__)()
    model, classes = given["model"], type(given.get("loss_fn")).__name__ in ("CrossEntropyLoss", "BCEWithLogitsLoss")
    registry.register(given["optimizer"])
    registry.add_module_changing_check(model, module_name="model")
    registry.add_module_nan_check(model, module_name="model")
    registry.add_module_inf_check(model, module_name="model")
    if classes:
        registry.add_module_output_range_check(model, output_range=(0, 1), negate_range=True, module_name="model")
    try:
        trained(given)
    except RuntimeError as error:
        return {line.strip()[:80] for line in str(error).splitlines() if line.strip()}
    return set()


def _first_words(text: str) -> str:
    return " ".join(text.split()[:6])


PEERS: dict[str, Callable[[dict[str, Any]], set[str]]] = {
    "torchtest2": torchtest2,
    "torch-audit": torch_audit,
    "preflight-ml": preflight_ml,
    "torchdiag": torchdiag,
    "neural-net-checklist": neural_net_checklist,
    "torcheck": torcheck,
}
