"""Run a copy as an experiment does, and see whether its outputs change with its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from nbdebug.core.control import Control
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.sandbox.weight_perturbation import VERIFIED, outputs_change
from nbdebug.setup import Setup
from tests.sandbox.wrapped_models import made


def sandbox_of(make: Callable[[], nn.Module], **others: Any) -> Sandbox:
    return make_sandbox(Setup(**(made(make) | others)), Control())


def changes(make: Callable[[], nn.Module], **others: Any) -> bool | None:
    sandbox = sandbox_of(make, **others)
    found = outputs_change(sandbox, sandbox.batch())
    sandbox = sandbox.fresh()
    sandbox.forward(sandbox.batch())
    assert not any(sandbox.setup.isolation.values()) and VERIFIED in sandbox.setup.isolation
    return found
