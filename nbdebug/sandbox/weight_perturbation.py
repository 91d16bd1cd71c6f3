"""Verify once that a copy computes with its own weights: change them, and see its outputs change.

Outputs may depend on no weight, for good reason or by a bug that other checks name. So unchanged outputs alone prove
nothing: a copy is refused only where live tensors were found in what it computed, as leaves of the autograd graph or by
their memory among the operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from nbdebug.core.torch_compat import write_count
from nbdebug.errors import Cancelled, CopyNotIsolated, OutOfTime
from nbdebug.sandbox.guard import Guard, close_for_sure
from nbdebug.sandbox.isolation import Watch, isolated, refuse_leak
from nbdebug.sandbox.live_tensors import named_tensors, same_values
from nbdebug.setup import Batch
from nbdebug.setup.object_graph import arrays_in
from nbdebug.setup.sample_dataset import seed_all

if TYPE_CHECKING:
    from nbdebug.sandbox import Sandbox

__all__ = ["VERIFIED", "outputs_change", "verify_copy"]

VERIFIED = "a pass with other weights"
UNCHANGED_OUTPUTS = "The outputs of the copy did not change when all of its weights were changed."
_MOST_NODES = 200_000  # of an autograd graph that are visited
_LEAST_CHANGE = 0.1  # for weights that are all alike, as the zeros of an adapter


def verify_copy(sandbox: Sandbox, batch: Batch) -> None:
    """Run a fresh copy twice, before and after its weights change; raise if it computes with live ones instead.

    What fails here in another way fails in the run itself as well, and is judged there.
    """
    isolation = sandbox.setup.isolation
    if VERIFIED in isolation:
        return
    guard = Guard(sandbox.control)
    try:
        guard.save_generators()
        with torch.inference_mode(False), torch.enable_grad():
            if outputs_change(sandbox.fresh(), batch) is False:
                sandbox.notes.append(UNCHANGED_OUTPUTS)
    except (KeyboardInterrupt, Cancelled, OutOfTime):
        isolation.pop(VERIFIED, None)  # it is verified by the next run
        raise
    except CopyNotIsolated:
        raise
    except Exception:
        isolation.setdefault(VERIFIED, "")
    finally:
        close_for_sure(guard)


def outputs_change(fresh: Sandbox, batch: Batch) -> bool | None:
    """Change the weights of this copy and return whether its outputs change; None where that cannot be said."""
    fresh.setup.isolation[VERIFIED] = ""  # the passes below ask for this as well
    kind = "a forward pass" if fresh.compute_loss is None else "compute_loss"
    fresh.ready_to_train()
    before = {name: _state(tensor) for name, tensor in named_tensors(fresh.model).items()}
    with isolated(fresh.setup, fresh.model, kind) as watch:
        outputs = _outputs(fresh, batch)
    if watch is None:
        return None
    _refuse_live_leaf(fresh, outputs, watch, kind)
    now = named_tensors(fresh.model)
    for name in watch.live.used:
        if name in now and _state(now[name]) != before.get(name):
            refuse_leak(fresh.setup, kind, f"changed its own {name} but read the {name}")
    weights = named_tensors(fresh.model, buffers=False)
    used = [name for name in watch.live.used if name in weights]
    if not _change(weights[name] for name in used or weights) or not outputs:
        return None
    changed = _differ(outputs, _outputs(fresh, batch))
    if used and not changed:
        refuse_leak(fresh.setup, kind, f"did not use its own {used[0]} but the {used[0]}")
    return changed if changed or all(bool(torch.isfinite(o).all()) for o in outputs) else None


def _outputs(fresh: Sandbox, batch: Batch) -> list[torch.Tensor]:
    """Return every tensor that one pass gives, from the same seed each time."""
    seed_all(0)
    if fresh.compute_loss is None:
        given: Any = fresh.forward(batch.clone())
    else:
        outcome = fresh.run(batch.clone())
        given = (outcome.output, outcome.loss)
    return [part for part in arrays_in(given) if isinstance(part, torch.Tensor)]  # also those of a distribution


def _differ(outputs: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    if len(outputs) != len(others):
        return True
    return not all(same_values(a.detach(), b.detach()) for a, b in zip(outputs, others, strict=True))


def _refuse_live_leaf(fresh: Sandbox, outputs: list[torch.Tensor], watch: Watch, kind: str) -> None:
    """Refuse the copy if a backward pass from its outputs would accumulate a gradient in a live parameter."""
    stack = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen = set(stack)
    while stack and len(seen) < _MOST_NODES:
        node = stack.pop()
        if name := watch.live.parameters.get(id(getattr(node, "variable", None))):
            refuse_leak(fresh.setup, kind, f"gave outputs whose gradient goes to the parameter {name}")
        new = {after for after, _ in node.next_functions if after is not None} - seen
        seen |= new
        stack.extend(new)


def _change(tensors: Iterable[torch.Tensor]) -> bool:
    """Add noise to parameters of the copy, as large as they are spread; return whether there were any."""
    changed = False
    with torch.no_grad():
        for tensor in {id(t): t for t in tensors if not t.is_meta}.values():
            try:
                spread = max(float(tensor.std()), _LEAST_CHANGE) if tensor.numel() > 1 else 1.0
                tensor.add_(torch.randn_like(tensor), alpha=spread)
                changed = True
            except (RuntimeError, NotImplementedError, ValueError, TypeError):  # whole numbers, quantized, lazy
                continue
    return changed


def _state(tensor: torch.Tensor) -> tuple[int, int]:
    is_counted = not is_lazy(tensor) and not tensor.is_inference()
    return id(tensor), write_count(tensor) if is_counted else 0
