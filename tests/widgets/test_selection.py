"""One layer is selected in all tabs at once, and leads to the finding that is about it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.widgets.selection import is_about
from tests.widgets.test_wizard import wait


def dead() -> Any:
    """Return a wizard on a network of which the second layer outputs nothing."""
    torch.manual_seed(0)
    x = torch.randn(256, 12)
    hidden = nn.Linear(16, 16)
    nn.init.constant_(hidden.bias, -50.0)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), hidden, nn.ReLU(), nn.Linear(16, 2))
    return nbdebug.wizard(model, DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32, shuffle=True))


def opened(wizard: Any, tab: str) -> Any:
    wizard.face.tabs[tab].click()
    wait(wizard)
    return wizard.face.explored.children[-1]


def test_a_choice_in_one_tab_holds_in_the_others_and_leads_to_its_finding() -> None:
    wizard = dead()
    wizard.face.tree.selected = wizard.pane.step_of("dead-units")
    wizard.face.run_step.click()
    wait(wizard)
    views = [opened(wizard, tab) for tab in ("Activations", "Gradients", "Layers")]
    finding = next(f for f in wizard.report.findings if f.check == "dead-units")
    assert {view.selected for view in views} == {finding.where}, "the place of the likeliest cause"
    assert all(view.marks[finding.where] == finding.severity for view in views)
    views[1].selected = "0.weight"  # as the front end does
    assert {view.selected for view in views} == {"0.weight"} and wizard.selection.finding is None
    views[0].selected = finding.where
    says, button = wizard.selection.view.children
    assert "dead" in says.value or finding.says[:20] in says.value
    button.click()
    assert wizard.face.screen == "step" and wizard.face.tree.selected == wizard.pane.step_of("dead-units")
    wizard.close()


def test_a_place_is_about_the_layer_and_its_parameters() -> None:
    assert is_about("fc1", "fc1.weight") and is_about("fc1.weight", "fc1") and is_about("fc1", "fc1 → function")
    assert not is_about("", "fc1") and not is_about("fc1", "fc10") and not is_about("fc", "fc1")
