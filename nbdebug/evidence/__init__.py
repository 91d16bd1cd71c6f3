"""Measurements that several checks share: each file holds the experiment (a probe) and what it returns.

Evidence is a frozen dataclass of plain numbers; tensors stop there. What only one check needs stands in the file of
that check. `INDEX` lists the shared ones by the question that they answer.
"""

from __future__ import annotations

import importlib
from typing import Any

INDEX: dict[str, dict[str, str]] = {
    "What does the data loader yield?": {
        "LoaderSweep": "loader_sweep",
        "EpochOrder": "epoch_order",
        "BatchRepeats": "batch_repeats",
        "Rereading": "repeated_reads",
        "Samples": "sample_table",
        "Baselines": "baselines",
        "FirstWeights": "first_layer_inputs",
    },
    "Does one batch run forward and backward?": {
        "TrialRun": "trial_run",
        "FirstPass": "first_pass",
        "FinitePasses": "finite_passes",
        "StepModes": "step_modes",
        "TapedPass": "taped_pass",
        "PositionInfluence": "position_influence",
        "PaddingTrial": "padding",
        "AttentionScores": "attention_scores",
    },
    "How does the loss respond to outputs and targets?": {
        "LossResponse": "loss_response",
        "InitialLoss": "initial_loss",
        "TargetInfluence": "target_influence",
        "ClassWeighting": "class_weighting",
    },
    "Which parameters train, and how do signal and gradient flow?": {
        "GradientReach": "parameter_gradients",
        "OptimizerCoverage": "optimizer_coverage",
        "InitialWeights": "initial_weights",
        "SilentParts": "silent_parts",
        "GradientFlow": "gradient_flow",
        "UnitActivity": "unit_activity",
    },
    "What happens in a short training?": {
        "Overfit": "overfit_one_batch",
        "RateTrials": "learning_rate_trials",
        "ShortRun": "short_run",
        "UpdateRatios": "short_run",
        "Pace": "short_run",
        "Practice": "training_run",
        "LearningGate": "learning_gate",
    },
    "What does the user's own training loop do?": {
        "Loop": "training_loop",
        "LoopFacts": "training_loop",
        "Clipping": "training_loop",
        "StepEvents": "step_events",
        "Schedule": "schedule",
        "Recording": "recording",
        "LossCourse": "recorded.loss_course",
        "LostPasses": "recorded.loop",
        "WeightGrowth": "recorded.weights",
        "FirstBadValue": "recorded.values",
        "PredictionChanges": "recorded.values",
        "Ranks": "ranks",
        "MovingBuffers": "moving_buffers",
    },
    "What do layers and parameters look like?": {
        "ActivationLook": "activation_histograms",
        "ParameterLooks": "parameter_histograms",
        "LayerCosts": "layer_costs",
    },
}
_HOMES = {name: home for group in INDEX.values() for name, home in group.items()}

__all__ = ["INDEX", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import shared evidence when it is first asked for: `nbdebug.evidence.FirstPass`."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
