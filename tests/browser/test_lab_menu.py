"""The menu, the command palette and the settings editor: what is changed there is what the wizard is called with."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.jupyter import Notebook
from tests.browser.lab import MAKE, PATIENCE, call, choose

FIELD = "[id='jp-SettingsEditor-nbdebug:plugin_{}']"


def edit_settings(notebook: Notebook) -> Locator:
    """Open the settings of nbdebug in the settings editor, and return its form."""
    page = notebook.page
    choose(notebook, "Settings", "Settings Editor")
    page.locator(".jp-PluginList input[type=search]").fill("nbdebug", timeout=PATIENCE)
    page.locator(".jp-PluginList-entry", has_text="nbdebug").click()
    return page.locator(".jp-SettingsForm")


def set_threshold(form: Locator, check: str, name: str, value: str) -> None:
    """Add a check, a threshold of it, and its number, one row below the other."""
    row = form.locator(FIELD.format("thresholds"))
    for key in (check, name):
        row.get_by_title("Add item").first.click()
        new = row.locator("input[value=newKey]")
        new.fill(key)
        new.blur()
        row = form.locator(FIELD.format(f"thresholds_{check}"))
    row.locator(FIELD.format(f"thresholds_{check}_{name}")).fill(value)


def test_what_the_settings_editor_says_is_what_the_wizard_is_called_with(notebook: Notebook) -> None:
    page, name = notebook.page, f"settings-{notebook.front}.ipynb"
    if notebook.front == "lab":  # the page that is open follows at once
        notebook.open(name, [MAKE])
    else:  # the notebooks of Notebook 7 have no settings editor; that of the file browser is for them
        page.goto(f"{notebook.server.url}/tree?token={notebook.server.token}")
    form = edit_settings(notebook)
    form.locator(FIELD.format("timeLimit")).fill("60", timeout=PATIENCE)
    form.locator(FIELD.format("includeSamples")).check()
    set_threshold(form, "batch-mixing", "influence", "0.125")
    notebook.screenshot(f"lab-settings-{notebook.front}")
    notebook.wait_for_settings("nbdebug:plugin", thresholds={"batch-mixing": {"influence": 0.125}})
    if notebook.front == "lab":
        page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=name).click()
    else:
        notebook.open(name, [MAKE])
    notebook.run_cell(0)
    call(notebook, "Troubleshoot")
    page.locator(".jp-Dialog").get_by_role("button", name="Insert a cell").click(timeout=PATIENCE)
    options = 'thresholds={"batch-mixing": {"influence": 0.125}}, time_limit=60, include_samples=True'
    expect(notebook.cell(1)).to_contain_text(f"nbdebug.wizard(model, loader, criterion, optimizer, {options})")
    notebook.wait_for_idle()
    expect(notebook.output(1).get_by_role("button", name="Run diagnosis").first).to_be_visible(timeout=PATIENCE)


def test_the_menu_has_every_command_and_says_what_is_missing(notebook: Notebook) -> None:
    notebook.open(f"menu-{notebook.front}.ipynb", ["1 + 1"])
    page = notebook.page
    page.locator(".lm-MenuBar").first.get_by_role("menuitem", name="nbdebug", exact=True).click(timeout=PATIENCE)
    items = page.locator(".lm-Menu .lm-Menu-item[data-type=command]")
    expect(items).to_have_text(
        [
            "Troubleshoot",
            "Show the nbdebug Panel",
            "Explain the Last Error",
            "Stop the Watched Training",
            "Export Report…",
        ]
    )
    expect(items.nth(3)).to_have_attribute("aria-disabled", "true")  # nothing is watched
    notebook.screenshot(f"lab-menu-{notebook.front}")
    page.keyboard.press("Escape")
    for item, said in (
        ("Troubleshoot", "no torch model and no loader among the variables"),
        ("Explain the Last Error", "no cell that failed"),
        ("Export Report…", "There is no report yet"),
    ):
        choose(notebook, "nbdebug", item)
        expect(page.locator(".jp-Dialog")).to_contain_text(said, timeout=PATIENCE)
        page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()
    choose(notebook, "nbdebug", "Show the nbdebug Panel")
    expect(page.locator("#nbdebug-panel")).to_contain_text("Troubleshoot opens the wizard here")
