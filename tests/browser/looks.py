"""How things on a page look: computed styles, places, colors, and what should not be there."""

from __future__ import annotations

import re

from playwright.sync_api import Locator

from tests.browser.jupyter import Notebook, Theme

__all__ = ["BROKEN", "EMPTY", "LOOK", "UNSCOPED", "boxes", "brightness", "style", "themed"]

# How every element of a view is drawn, but for what depends on the pointer, the focus and the theme, and for what
# JupyterLab's table of contents adds to headings.
LOOK = """root => [root, ...root.querySelectorAll("*:not(.numbering-entry)")].map(node => {
  const style = getComputedStyle(node);
  const parts = ["display", "position", "listStyleType", "fontSize", "fontWeight", "textAlign", "flexDirection",
    "paddingLeft", "paddingTop", "marginTop", "marginLeft", "borderLeftWidth", "borderTopWidth", "overflowX",
    "gridTemplateColumns"];
  return [node.tagName, node.getAttribute("class") ?? "", ...parts.map(part => style[part])].join(" ");
})"""
# What of the outputs can be seen and has nothing in it.
EMPTY = """() => [...document.querySelectorAll(".jp-Notebook .jp-OutputArea-child")].filter(node =>
  node.offsetHeight > 0 && !node.textContent.trim() && !node.querySelector("img, svg, canvas, input, progress"))
  .map(node => node.outerHTML.slice(0, 300))"""
# Words of the map's titles that stand on more than one line.
BROKEN = """root => [...root.querySelectorAll(":scope > ul > li > button .nbdebug-title")].flatMap(title => {
  const text = title.firstChild, range = document.createRange();
  return [...text.data.matchAll(/\\S+/g)].filter(word => {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length > 1;
  }).map(word => word[0]);
})"""
# Selectors of our style sheets that reach beyond our own elements.
UNSCOPED = """() => {
  const rules = list => [...list].flatMap(rule => rule.selectorText ? [rule.selectorText] : rules(rule.cssRules ?? []));
  const ours = [...document.querySelectorAll("style")].filter(node => /\\.nbd-|nbdebug/.test(node.textContent));
  return ours.flatMap(node => rules(node.sheet.cssRules)).filter(text => !/\\.nbdebug-/.test(text));
}"""


def style(found: Locator, name: str) -> str:
    """Return one computed style of the first such element."""
    return str(found.first.evaluate("(node, name) => getComputedStyle(node)[name]", name))


def boxes(found: Locator) -> list[dict[str, float]]:
    """Return where these elements are."""
    places: list[dict[str, float]] = found.evaluate_all("all => all.map(each => each.getBoundingClientRect().toJSON())")
    return places


def themed(notebook: Notebook, theme: Theme) -> None:
    """Change the theme of the page, with everything on it."""
    notebook.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    light = str(theme == "JupyterLab Light").lower()
    notebook.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")


def brightness(color: str) -> float:
    """Return how bright a color is, from 0 to 255."""
    red, green, blue = (float(part) for part in re.findall(r"[\d.]+", color)[:3])
    return 0.3 * red + 0.59 * green + 0.11 * blue
