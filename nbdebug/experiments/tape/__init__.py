"""One recorded run of the user's own loss or training step, in which values can be exchanged.

`record` runs the program once under a `TorchFunctionMode`. Each op is written down with its operands, and each tensor
with its taint: made of the batch, of trained parameters, of random draws. From that the tape reads the terms of the
loss, the heads (outputs of the last ops that compute with parameters), the prediction and the target that the main
term compares, whatever the shape of the program: `loss_fn`, `compute_loss`, a model with its own loss, a bare
`train_step`. Two interventions: `Tape.replay` runs only the ops behind the prediction again, `override` runs the whole
program with a value exchanged. Each must reproduce the run's own loss before it may be used.

Memory: while recording, the tensors of the autograd graph's ops are kept, and none of passes without gradients; after
reading, only the operands of the ops behind the heads.
"""

from nbdebug.experiments.tape.fit import answers_on_tape, compares_with_batch, fit_on_tape
from nbdebug.experiments.tape.override import Override, agree_on_replay, moves_with_seed, override
from nbdebug.experiments.tape.program import TapeUnreadable
from nbdebug.experiments.tape.read import Term
from nbdebug.experiments.tape.taint import Taint
from nbdebug.experiments.tape.tape import TOLERANCE, Tape, record

__all__ = [
    "TOLERANCE",
    "Override",
    "Taint",
    "Tape",
    "TapeUnreadable",
    "Term",
    "agree_on_replay",
    "answers_on_tape",
    "compares_with_batch",
    "fit_on_tape",
    "moves_with_seed",
    "override",
    "record",
]
