"""Evidence: frozen dataclasses of plain numbers. Tensors stop before here."""

from nbdebug.evidence.answers import *  # noqa: F403
from nbdebug.evidence.batches import *  # noqa: F403
from nbdebug.evidence.data import *  # noqa: F403
from nbdebug.evidence.influence import *  # noqa: F403
from nbdebug.evidence.intake import *  # noqa: F403
from nbdebug.evidence.layers import *  # noqa: F403
from nbdebug.evidence.learning import *  # noqa: F403
from nbdebug.evidence.looks import *  # noqa: F403
from nbdebug.evidence.loops import *  # noqa: F403
from nbdebug.evidence.loss_trials import *  # noqa: F403
from nbdebug.evidence.losses import *  # noqa: F403
from nbdebug.evidence.modes import *  # noqa: F403
from nbdebug.evidence.numerics import *  # noqa: F403
from nbdebug.evidence.parameters import *  # noqa: F403
from nbdebug.evidence.passes import *  # noqa: F403
from nbdebug.evidence.practice import *  # noqa: F403
from nbdebug.evidence.ranks import *  # noqa: F403
from nbdebug.evidence.readings import *  # noqa: F403
from nbdebug.evidence.recording import *  # noqa: F403
from nbdebug.evidence.relations import *  # noqa: F403
from nbdebug.evidence.run import *  # noqa: F403
from nbdebug.evidence.tensors import *  # noqa: F403
from nbdebug.evidence.weights import *  # noqa: F403
