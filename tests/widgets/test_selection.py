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
    shown = wizard.face.explored.children[-1]
    return shown if tab == "Layers" else shown.children[0]  # the table, with the detail beside it


def detail(wizard: Any, tab: str) -> Any:
    """Return what stands beside the table."""
    wizard.face.tabs[tab].click()
    return wizard.face.explored.children[-1].children[1]


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


def test_the_layer_that_is_selected_is_shown_beside_the_table() -> None:
    """Its histogram with the dead part marked, its units, and its samples; bars of the gradients choose a parameter."""
    wizard = dead()
    for tab in ("Activations", "Gradients"):
        opened(wizard, tab)
    wizard.selection.choose("3")
    says, *charts, more = detail(wizard, "Activations").children
    assert "3 · ReLU" in says.value and len(charts) == 2
    assert "most units are dead" in charts[0].static
    assert "16 of 16 units output 0 for every sample" in more.value and more.value.count("nbdebug-silent") == 16
    assert "Largest mean output" in more.value and "Smallest mean output" in more.value
    wizard.selection.choose("4.weight")
    bars, says, *charts, _ = detail(wizard, "Gradients").children
    assert "4.weight" in says.value and [chart.static.count("<img") for chart in charts] == [1, 1]
    figure = bars._live._bars
    assert figure.selected.tolist() == [bars._live._kept.index(4)]
    figure.selected = [bars._live._kept.index(0)]  # as a click does
    assert wizard.selection.path == "0.weight" and "0.weight" in detail(wizard, "Gradients").children[1].value
    wizard.close()


def test_a_watched_training_adds_the_histograms_over_its_steps() -> None:
    wizard = dead()
    model = wizard.session.setup.model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with nbdebug.watch(model, optimizer, show=False) as live:
        for x, y in wizard.session.setup.feed.loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    opened(wizard, "Activations")
    wizard.selection.choose("1")
    charts = detail(wizard, "Activations").children[1:-1]
    assert live.step == 8
    assert "Over the steps of your training" in charts[-1].static
    wizard.close()
