"""Every patch, tried on a failing example that it is for: the remedy that carries it verifies."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.fixes import all_patches
from nbdebug.sandbox import make_sandbox
from tests.examples import all_failing_examples
from tests.trust.fingerprint import difference, fingerprint
from tests.unseen import all_unseen
from tests.unseen.fifth_recipes import trunk_at_rate_zero
from tests.unseen.fifth_scales import neighbors_added_up
from tests.zoo.tabular import digits

# patch: the failing example that it mends, as check:name
MENDS = {
    "activation-between": "missing-nonlinearity:three_linear_layers",
    "average-accumulation": "accumulation-not-averaged:every_second_call",
    "average-loss": "loss-sums-over-batch:summed_with_a_high_rate",
    "binary-labels": "invalid-labels:one_and_two_for_binary_cross_entropy",
    "causal-mask": "causal-leak:mask_forgotten",
    "clear-gradients": "accumulated-gradients:never_cleared",
    "constant-rate": "schedule-reaches-zero:zero_from_the_beginning",
    "convert-labels": "invalid-labels:class_ids_as_floats",
    "copy-samples": "preprocessing-mutates-data:one_buffer_for_all_samples",
    "default-optimizer-options": "unusual-optimizer:eps_with_the_sign_lost",
    "drop-last-activation": "softmax-before-cross-entropy:softmax_layer",
    "drop-last-batch": "extreme-batch-size:one_left_over",
    "fill-gaps": "non-finite-inputs:one_missing_entry",
    "full-precision-updates": "updates-lost-to-rounding:convolution_in_bfloat16",
    "group-norm": "extreme-batch-size:one_by_one_with_batchnorm",
    "guard-operation": "non-finite-forward:logarithm_of_zero",
    "hold-hidden-layers": "nondeterministic-eval:dropout_in_a_list",
    "ignore-labels": "invalid-labels:a_few_unknown_labels",
    "invert-mask": "inverted-attention-mask:words_as_padding",
    "keep-every-sample": "samples-dropped:last_batch_dropped",
    "keep-graph": "untrained-parameters:cut_by_detach",
    "leaky-activations": "dead-units:bias_far_below",
    "limit-dropout": "excessive-dropout:keep_and_drop_confused",
    "multiply-learning-rate": "learning-rate-too-high:sgd_that_diverges",
    "negate-loss": "loss-sign-flipped:likelihood_is_minimized",
    "no-chance-in-eval": "nondeterministic-eval:functional_dropout",
    "norm-momentum": "batchnorm-misused:momentum_zero",
    "normalize-between": "activations-off-scale:signal_dies",
    "normalize-features": "normalize-over-wrong-dim:columns_of_length_one",
    "pad-left": "causal-leak:padded_on_both_sides",
    "plain-loop": "step-never-taken:no_step",
    "put-behind-model": "softmax-before-cross-entropy:softmax_by_hand_with_smoothing",
    "read-like-validation": "targets-drawn-at-random:flipped_image_thrown_away",
    "recode-split": "split-treated-differently:cities_numbered_anew",
    "reduce-loss": "loss-not-differentiable:unreduced",
    "register-hidden": "unregistered-parameters:layers_in_a_list",
    "reinitialize": "symmetric-initialization:all_zero",
    "relu-activations": "vanishing-gradients:deep_sigmoid",
    "reload-batches": "empty-loader:batch_larger_than_the_data",
    "remove-columns": "target-leaks-into-inputs:label_in_the_corner",
    "remove-copies": "split-leakage:overlapping_slices",
    "rename-split": "split-treated-differently:one_map_of_names_per_split",
    "reorder-split": "split-treated-differently:columns_sorted_by_name",
    "replace-loss": "loss-not-differentiable:share_of_errors",
    "reread-images": "misread-image-layout:reshaped_instead_of_permuted",
    "samples-first": "batch-mixing:batch_first_forgotten",
    "scale-inputs": "unnormalized-inputs:raw_table",
    "scale-split": "split-shift:division_forgotten",
    "set-bias": "output-bias-ignores-prior:large_numbers",
    "set-optimizer-option": "excessive-weight-decay:adamw_pulled_to_zero",
    "shape-target": "incompatible-target-shape:column_against_row",
    "shift-labels": "invalid-labels:counted_from_one",
    "shuffle": "unshuffled-loader:folders_one_after_the_other",
    "slow-schedule": "schedule-reaches-zero:exponential_with_a_slip",
    "small-head": "initial-loss-off:loud_number",
    "softmax-dimension": "softmax-over-wrong-dim:attention_over_samples",
    "standardize-inputs": "feature-scales-differ:wines_as_measured",
    "standardize-targets": "unscaled-targets:diabetes_as_measured",
    "switch-to-training": "left-in-eval-mode:step_that_evaluates",
    "textbook-optimizer": "learning-rate-too-low:sgd_that_creeps",
    "train-everything": "parameters-missing-from-optimizer:optimizer_of_another_model",
    "train-loss": "unregistered-parameters:loss_learns_alone",
    "train-reached": "parameters-missing-from-optimizer:loss_of_prototypes",
    "unclipped-gradients": "clipping-too-tight:norm_clipped_to_nothing",
    "unfreeze": "frozen-parameters:frozen_altogether",
    "weigh-classes": "class-imbalance:rare_class_and_cross_entropy",
    "zero-bias": "dead-units:bias_far_below",
}
# set-ups written apart from the remedies, with the patch that mends each
APART = {
    "binary_loss_for_three_kinds": "replace-loss",
    "copy_does_the_work": "keep-graph",
    "encoder_without_gradients": "keep-graph",
    "epochs_counted_in_batches": "constant-rate",
    "files_class_by_class": "shuffle",
    "gates_in_a_list": "register-hidden",
    "log_softmax_over_samples": "softmax-dimension",
    "slope_without_a_graph": "keep-graph",
    "temperature_as_a_float": "keep-graph",
}
QUICK = (
    "constant-rate",
    "log_softmax_over_samples",
    "drop-last-activation",
    "multiply-learning-rate",
    "plain-loop",
    "shift-labels",
    "weigh-classes",
)
BY_HAND = (
    "clip-gradients",
    "plain-loss",
    "raise-zero-rates",
    "shortcuts",
    "uncorrected-spread",
    "unit-activations",
)  # those that no failing example needs: below


@pytest.fixture(scope="module", autouse=True)
def _compiler_imported() -> None:
    """The first optimizer of a process imports torch's compiler, which sets variables of the environment."""
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])


def test_every_patch_has_its_case() -> None:
    assert sorted([*MENDS, *BY_HAND]) == sorted(all_patches())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MENDS], ids=str
)
def test_a_patch_mends_its_patient(name: str) -> None:
    check, _, who = MENDS[name].partition(":")
    torch.manual_seed(0)
    setup = next(p for p in all_failing_examples() if (p.check, p.name) == (check, who)).make()
    finding = nbdebug.diagnose(**setup, checks=[check], progress=False).findings[0]
    carried = [remedy.patch.name if remedy.patch else "" for remedy in finding.remedies]
    before = fingerprint(*setup.values())
    object.__setattr__(finding, "remedies", _with(finding, name, carried))
    verification = finding.verify(0, progress=False)
    assert verification.verified, verification
    assert not difference(before, fingerprint(*setup.values()))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in APART], ids=str
)
def test_a_patch_mends_what_was_written_apart(name: str) -> None:
    torch.manual_seed(0)
    one = next(one for one in all_unseen() if one.name == name)
    report = nbdebug.diagnose(**one.make(), checks=list(one.accepted), progress=False, tell_apart=False)
    verification = report.findings[0].verify(progress=False)
    assert verification.verified, verification
    assert verification.remedy.patch is not None and verification.remedy.patch.name == APART[name]


def _with(finding: Finding, name: str, carried: list[str]) -> tuple[Remedy, ...]:
    """Return the remedy of this patch; one that the check does not name is tried all the same."""
    if name not in carried:
        return (Remedy("Try this.", "", Patch(name)),)
    return (finding.remedies[carried.index(name)],)


def by_hand(setup: dict[str, Any], check: str, *patches: Patch) -> Finding:
    """Return a finding with these patches about a set-up, as if the check had made it."""
    session = nbdebug.Session(nbdebug.Setup(**setup))
    return Finding("", check=check, remedies=tuple(Remedy("Try this.", "", p) for p in patches), session=session)


def test_clipping_mends_a_step_that_is_far_too_large() -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 8) * torch.tensor([1.0, 1, 1, 1, 1, 1, 1, 30])
    data = TensorDataset(x, x @ torch.randn(8, 1))
    model = nn.Linear(8, 1)
    setup = {
        "model": model,
        "loader": DataLoader(data, 32),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
    }
    assert by_hand(setup, "exploding-gradients", Patch("clip-gradients", {"norm": 1.0})).verify(progress=False).verified


def test_shortcuts_mend_a_deep_plain_network() -> None:
    torch.manual_seed(0)
    hidden = [layer for _ in range(24) for layer in (nn.Linear(32, 32), nn.Tanh())]
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), *hidden, nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    setup = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}
    assert by_hand(setup, "vanishing-gradients", Patch("shortcuts")).verify(progress=False).verified


def test_unit_activations_tame_sums_over_neighbors() -> None:
    torch.manual_seed(0)
    setup = neighbors_added_up()
    verification = by_hand(setup, "activations-off-scale", Patch("unit-activations")).verify(progress=False)
    assert verification.verified, verification


def test_every_group_gets_the_highest_rate() -> None:
    patched = Remedy("", patch=Patch("raise-zero-rates")).apply(nbdebug.Setup(**trunk_at_rate_zero()))
    assert [group["lr"] for group in make_sandbox(patched, Control()).optimizer.param_groups] == [3e-3, 3e-3]


def test_the_error_alone_is_learned_where_a_penalty_outweighs_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        penalty = sum((p.square().sum() for p in model.parameters()), torch.zeros(()))
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1]) + 100 * penalty
        return loss

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    setup = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}
    finding = by_hand({**setup, "compute_loss": compute_loss}, "loss-terms-unbalanced", Patch("plain-loss"))
    verification = finding.verify(progress=False)
    assert verification.contests and all(contest.better for contest in verification.contests), verification


class OfOne(nn.Module):
    """Divides by the spread over a dimension of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return NaN, unless the spread is taken without the correction."""
        return self.layer(x) / (1 + x.unsqueeze(-1).std(-1).mean())


def test_a_spread_of_one_value_is_mended() -> None:
    torch.manual_seed(0)
    setup = {"model": OfOne(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}
    assert by_hand(setup, "non-finite-forward", Patch("uncorrected-spread")).verify(progress=False).verified


@pytest.mark.parametrize(
    "patch", [Patch("reinitialize"), Patch("shuffle"), Patch("negate-loss")], ids=lambda patch: patch.name
)
def test_a_healthy_model_is_not_mended(patch: Patch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    setup = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}
    verification = by_hand(setup, "cannot-overfit-batch", patch).verify(progress=False)
    assert verification.verdict == "did not help", verification


class Cropped(nn.Module):
    """Clamps its scores to where the loss wants probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Cut off at 0 and 1."""
        return self.net(x).clamp(0, 1)


def test_a_sigmoid_takes_the_place_of_a_clamp() -> None:
    """Linear outputs would be none that this loss takes, so that is not what is offered."""
    model = Cropped()
    batches = [(x, (y > 4).float()[:, None]) for x, y in digits()]
    setup = {"model": model, "loader": batches, "loss_fn": nn.BCELoss()}
    finding = nbdebug.diagnose(**setup, checks=["clamped-output"], progress=False).findings[0]
    assert finding.remedies[0].code == "return self.head(hidden).sigmoid()"
    tried = finding.verify(progress=False)
    assert tried.contests and all(contest.clean and contest.after >= 0.8 for contest in tried.contests), tried
