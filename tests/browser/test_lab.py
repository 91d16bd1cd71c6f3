"""The JupyterLab extension, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.jupyter import EXTENSION, Front, Notebook, Theme
from tests.browser.lab import MAKE, PATIENCE, choose, explaining, line_of_watch
from tests.browser.pages import step_named

# Pictures of both themes, at no further cost.
THEMES: dict[Front, Theme] = {"lab": "JupyterLab Dark", "notebook": "JupyterLab Light"}
NAMES = "print(sorted(name for name in globals() if 'nbdebug' in name), len(In))"


def test_the_button_offers_what_is_alive_and_inserts_the_wizard(notebook: Notebook) -> None:
    assert EXTENSION.is_dir(), "the extension is not built; run `make front`"
    notebook.open(f"picking-{notebook.front}.ipynb", [MAKE, NAMES])
    page = notebook.page
    page.get_by_role("button", name="Troubleshoot").click()
    expect(page.locator(".jp-Dialog")).to_contain_text("no torch model and no loader among the variables")
    page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()
    notebook.run_cell(0)
    page.get_by_role("button", name="Troubleshoot").click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog.get_by_label("Model")).to_have_value("model")
    expect(dialog.get_by_label("Model")).to_contain_text("Sequential, 242 parameters, weights (16, 12) … (2, 16)")
    expect(dialog.get_by_label("Loader")).to_contain_text("(256, 12) float32 and (256,) int64")
    expect(dialog.get_by_label("Loss")).to_have_value("criterion")
    notebook.screenshot(f"lab-picker-{notebook.front}")
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("[] 3")  # nothing in the namespace, and only the two cells in the history
    dialog.get_by_role("button", name="Insert a cell").click()
    expect(notebook.cell(1)).to_contain_text("nbdebug.wizard(model, loader, criterion, optimizer)")
    notebook.wait_for_idle()
    expect(notebook.output(1).get_by_role("button", name="Run diagnosis").first).to_be_visible(timeout=PATIENCE)


TRAIN = """
import time
with nbdebug.watch(model, optimizer) as live:
    while True:
        for inputs, labels in loader:
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
            time.sleep(0.005)
"""
ENDED = "print('ended', not live.is_running and live.step > 0)"


def test_a_training_is_followed_also_by_a_new_page_and_stopped(notebook: Notebook) -> None:
    notebook.server.set_theme(THEMES[notebook.front])
    notebook.open(f"watching-{notebook.front}.ipynb", [f"import nbdebug\n{MAKE}", TRAIN, ENDED])
    page = notebook.page
    notebook.run_cell(0)
    choose(notebook, "nbdebug", "Show the nbdebug Panel")
    notebook.begin_cell(1)
    line, panel = line_of_watch(notebook), page.locator("#nbdebug-panel")
    expect(line).to_contain_text("healthy", timeout=PATIENCE)
    expect(line).to_contain_text(re.compile(r"step [\d,]+ · loss 0\."), timeout=PATIENCE)
    expect(panel.locator(".nbd-plot").first).to_be_visible(timeout=PATIENCE)
    notebook.screenshot(f"lab-watch-{notebook.front}")
    notebook.reload()
    expect(line).to_contain_text("healthy", timeout=PATIENCE)
    choose(notebook, "nbdebug", "Show the nbdebug Panel")
    expect(panel.locator(".nbd-plot").first).to_be_visible(timeout=PATIENCE)
    line.get_by_role("button", name="Stop").click()
    notebook.wait_for_idle()
    expect(line).to_be_hidden(timeout=PATIENCE)
    expect(panel).to_contain_text("idle", timeout=PATIENCE)
    for _ in range(10):  # what is asked right after an interrupt may be left out by the kernel with what waited before
        notebook.run_cell(2)
        if notebook.output(2).locator(".jp-OutputArea-output").count():
            break
    expect(notebook.output(2)).to_have_text("ended True")
    expect(explaining(notebook)).to_have_count(0)  # an interrupt is no error of torch's


SICK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.last = nn.Softmax(dim=1)
        self.head = nn.Linear(16, 2)
    def forward(self, x):
        return self.last(self.head(self.body(x).relu()))
model = Net()
"""
LONG = "\n".join(f"# {number}" for number in range(100))


def test_the_wizard_beside_the_notebook_leads_to_the_line_and_exports(notebook: Notebook) -> None:
    notebook.server.set_settings("nbdebug:plugin", {"timeLimit": 120, "reportPath": "out/found.html"})
    notebook.open(f"beside-{notebook.front}.ipynb", [MAKE, SICK, LONG])
    page = notebook.page
    notebook.run_cell(0)
    notebook.run_cell(1)
    page.get_by_role("button", name="Troubleshoot").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Open beside the notebook").click()
    panel = page.locator("#nbdebug-panel")
    expect(panel.get_by_role("button", name="Run diagnosis").first).to_be_visible(timeout=PATIENCE)
    panel.get_by_role("button", name=step_named("loss-reads-outputs")).first.click()
    panel.get_by_role("button", name="Run this step").click()
    link = panel.get_by_role("button", name="bug: softmax-before-cross-entropy at last")
    link.click(timeout=PATIENCE)
    expect(page.locator(".jp-Notebook .jp-Cell.jp-mod-active")).to_contain_text("class Net")
    page.wait_for_function("() => window.getSelection().toString().trim() === 'self.last = nn.Softmax(dim=1)'")
    notebook.screenshot(f"lab-beside-{notebook.front}")
    page.locator(".jp-WindowedPanel-outer").first.evaluate("(all) => { all.scrollTop = all.scrollHeight; }")
    expect(notebook.cell(0)).not_to_be_in_viewport()
    expect(link).to_be_in_viewport()  # the panel does not scroll away
    choose(notebook, "nbdebug", "Export Report…")
    dialog = page.locator(".jp-Dialog")
    expect(dialog.get_by_label("Save as")).to_have_value("out/found.html")
    dialog.get_by_role("button", name="Export").click()
    expect(dialog).to_contain_text("Written: out/found.html", timeout=PATIENCE)
    assert "softmax-before-cross-entropy" in (notebook.server.home / "notebooks/out/found.html").read_text()
    dialog.get_by_role("button", name="Ok").click()


# Counts what the extension connects to a signal of the page: it is started anew with a `connect` that keeps a list.
START_COUNTED = """async () => {
  const signal = Object.getPrototypeOf(window.jupyterapp.commands.commandChanged);
  const connect = signal.connect;
  await window.jupyterapp.deactivatePlugin('nbdebug:plugin');
  window.connected = [];
  signal.connect = function (slot, self) {
    const [, , caller] = new Error().stack.split('\\n');
    if (caller.includes('/nbdebug/')) window.connected.push({ signal: this, slot, self });
    return connect.call(this, slot, self);
  };
  await window.jupyterapp.activatePlugin('nbdebug:plugin');
}"""
# What can still be disconnected was left behind.
STOP_COUNTED = """async () => {
  await window.jupyterapp.deactivatePlugin('nbdebug:plugin');
  const left = window.connected.filter(({ signal, slot, self }) => signal.disconnect(slot, self));
  const commands = window.jupyterapp.commands.listCommands().filter((id) => id.startsWith('nbdebug:'));
  return { connected: window.connected.length, left: left.map(({ slot }) => String(slot)), commands };
}"""
HEARD = """
from nbdebug.core import announcements
print(nbdebug.integrations.lab.channel.is_heard(), len(announcements._listeners))
"""


def test_nothing_stays_when_it_is_switched_off(notebook: Notebook) -> None:
    notebook.open(f"off-{notebook.front}.ipynb", [f"import nbdebug\n{MAKE}", "model(torch.randn(4, 13))", HEARD])
    page = notebook.page
    page.evaluate(START_COUNTED)
    for index in range(3):
        notebook.run_cell(index)
    expect(notebook.output(2)).to_have_text("True 1")
    expect(explaining(notebook)).to_be_visible(timeout=PATIENCE)
    page.get_by_role("button", name="Troubleshoot").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Open beside the notebook").click(timeout=PATIENCE)
    expect(page.locator("#nbdebug-panel").get_by_role("button", name="Run diagnosis").first).to_be_visible(
        timeout=PATIENCE
    )
    after = page.evaluate(STOP_COUNTED)
    assert after["connected"] > 0 and (after["left"], after["commands"]) == ([], [])
    expect(page.locator("#nbdebug-panel, .nbdebug-watch, .nbdebug-offer")).to_have_count(0)
    expect(page.get_by_role("button", name="Troubleshoot")).to_have_count(0)
    notebook.run_cell(2)
    expect(notebook.output(2)).to_have_text("False 0")  # the kernel tells nobody any more
    notebook.run_cell(1)
    expect(explaining(notebook)).to_have_count(0)


def test_nothing_of_it_is_there_when_it_is_disabled(notebook: Notebook) -> None:
    with notebook.server.without_extension("nbdebug"):
        notebook.open(f"disabled-{notebook.front}.ipynb", ["import nbdebug, torch\ntorch.ones(2) @ torch.ones(3)"])
        expect(notebook.page.get_by_role("menuitem", name="Kernel", exact=True)).to_be_visible(timeout=PATIENCE)
        notebook.run_cell(0)
        expect(notebook.output(0)).to_contain_text("RuntimeError")
    there = notebook.page.evaluate("() => window.jupyterapp.hasPlugin('nbdebug:plugin')")
    assert not there
    for role, name in (("button", "Troubleshoot"), ("button", "Explain with nbdebug"), ("menuitem", "nbdebug")):
        expect(notebook.page.get_by_role(role, name=name, exact=True)).to_have_count(0)
