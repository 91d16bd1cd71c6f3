"""What does the model do with a batch of one?"""

from __future__ import annotations

from torch import nn

from nbdebug.errors import NbdebugError
from nbdebug.evidence import LoneSample
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.kept_state import from_one_state

__all__ = ["lone_sample"]


@probe
def lone_sample(twin: Twin) -> LoneSample:
    """Run the model in train mode on one sample, and on two."""
    twin.ready_to_train()
    batch = twin.batch()
    norms = [
        path
        for path, module in twin.model.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training
    ]
    one = _error(twin, batch.head(1))
    two = _error(twin, batch.head(2)) if batch.size > 1 else ""
    return LoneSample(one, not two, norms[0] if norms else "")


def _error(twin: Twin, batch: Batch) -> str:
    try:
        with from_one_state(twin.model):
            twin.run(batch)
    except NbdebugError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
