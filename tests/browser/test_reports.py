"""Reports in Chromium: hostile texts stay texts, nothing is requested, and the page works on a phone and on paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page

from nbdebug.report.markdown import as_summary
from nbdebug.report.notebook import as_notebook
from nbdebug.report.page import as_fragment, as_page, difference_fragment
from nbdebug.report.prepare import prepared
from nbdebug.report.report import Report
from tests.browser.jupyter import Front, Server
from tests.report.hostile import hostile
from tests.report.payloads import PAYLOADS
from tests.report.samples import healthy, small

SHELL = '<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><body>{}</body></html>'
# Everything in the page that could act: elements, handlers, addresses other than anchors and our own pictures.
ACTIVE = """() => {
  const bad = [];
  const tags = ['script', 'iframe', 'object', 'embed', 'base', 'form', 'video', 'audio', 'foreignobject', 'animate',
                'set', 'math', 'link', 'marquee', 'select', 'textarea', 'template', 'noscript', 'xmp', 'source'];
  for (const e of document.querySelectorAll('*')) {
    if (tags.includes(e.localName.toLowerCase()) && !e.hasAttribute('data-ours')) bad.push(e.outerHTML.slice(0, 200));
    for (const a of e.attributes) {
      if (/^on/i.test(a.name)) bad.push(`${e.localName} ${a.name}`);
      if (['href', 'src', 'xlink:href', 'action', 'formaction', 'srcdoc', 'poster', 'ping', 'data'].includes(a.name)
          && !/^(#|data:image\\/(png|svg\\+xml);base64,)/.test(a.value)) bad.push(`${e.localName} ${a.value}`);
    }
  }
  return bad;
}"""
# What a reader may do: open everything, move over it, tab through it. What a click could run is an attribute (above).
TOUCH = """() => {
  for (const d of document.querySelectorAll('details')) d.open = true;
  for (const e of document.querySelectorAll('*')) {
    for (const kind of ['mouseover', 'focus']) e.dispatchEvent(new Event(kind));
  }
}"""


def page_form(report: Report) -> str:
    """The page without its policy, so that escaping alone has to hold."""
    text = as_page(report, include_samples=True)
    assert text.count("Content-Security-Policy") == 1
    return re.sub(r"<meta http-equiv=.Content-Security-Policy.[^>]*>", "", text).replace(
        "<script>", "<script data-ours>"
    )


def fragment_form(report: Report) -> str:
    return SHELL.format(as_fragment(report, include_samples=True) + difference_fragment(report.diff(healthy())))


def notebook_form(report: Report) -> str:
    notebook = nbformat.reads(as_notebook(report, include_samples=True), as_version=4)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return SHELL.format(body)


def markdown_form(report: Report) -> str:
    return SHELL.format(MarkdownIt("commonmark", {"html": True}).enable("table").render(as_summary(report)))


FORMS: dict[str, Callable[[Report], str]] = {
    "page": page_form,
    "fragment": fragment_form,
    "notebook": notebook_form,
    "markdown": markdown_form,
}


@pytest.fixture
def sheet(browser: Browser) -> Iterator[Page]:
    """A page that fails the test when it runs a payload or asks anything of anybody."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page, asked, dialogs = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()
    assert not dialogs
    foreign = [
        url for url in asked if not url.startswith(("file:", "data:image/png;base64,", "data:image/svg+xml;base64,"))
    ]
    assert not foreign, foreign


def batches(size: int) -> Iterator[list[str]]:
    payloads = iter(PAYLOADS)
    while batch := list(islice(payloads, size)):
        yield batch


def attack(sheet: Page, folder: Path, form: str, payloads: list[str], *, every_exhibit: bool) -> None:
    report = hostile(payloads, every_exhibit=every_exhibit)
    path = folder / "hostile.html"
    path.write_text(FORMS[form](report), encoding="utf-8")
    sheet.goto(path.as_uri())
    sheet.evaluate(TOUCH)
    assert sheet.evaluate("window.__pwned") is None, payloads
    assert sheet.evaluate(ACTIVE) == [], payloads
    seen = " ".join(sheet.evaluate("document.body.textContent").split())
    for finding in prepared(report).findings:
        start = " ".join(finding.says.split())[:90]
        assert start in seen, f"{form} lost the text {start!r}"


@pytest.mark.parametrize("form", FORMS)
def test_hostile_texts_stay_texts(sheet: Page, tmp_path: Path, form: str) -> None:
    for payloads in batches(12):
        attack(sheet, tmp_path, form, payloads, every_exhibit=False)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_each_hostile_text_alone_stays_text(sheet: Page, tmp_path: Path, form: str) -> None:
    for payloads in batches(1):
        attack(sheet, tmp_path, form, payloads, every_exhibit=True)


def test_hostile_texts_stay_texts_in_jupyter(browser: Browser, server: Server, front: Front) -> None:
    """A report as a notebook, and as the output of a cell, in a real front end with its own markdown and formulas."""
    report = hostile(PAYLOADS[::3], every_exhibit=False)
    notebook = nbformat.reads(as_notebook(report), as_version=4)
    output = nbformat.v4.new_output("display_data", data=report._repr_mimebundle_())
    notebook.cells.insert(0, nbformat.v4.new_code_cell("report", outputs=[output]))
    nbformat.write(notebook, server.home / "notebooks" / "hostile.ipynb")
    context = browser.new_context(viewport={"width": 1200, "height": 3000})
    page, asked, dialogs = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(server.address("hostile.ipynb", front))
    page.wait_for_selector(".jp-RenderedMarkdown h1", timeout=60_000)
    page.wait_for_timeout(3000)  # formulas are set after the texts are shown
    assert page.evaluate("window.__pwned") is None
    assert page.evaluate("document.querySelectorAll('.jp-Notebook mjx-container').length") == 0
    links = page.evaluate(
        "[...document.querySelectorAll('.jp-Notebook a[href]')]"
        ".map(a => [a.getAttribute('href'), a.textContent, a.closest('.jp-RenderedText') !== null])"
    )
    context.close()
    server.stop_kernels()
    assert not dialogs
    # JupyterLab itself makes links of addresses in plain text, newer ones also of those that are data, and of addresses
    # of the web in Markdown; nothing else may be one.
    others = [link for link in links if not link[0].startswith("#")]
    assert not [text for href, text, is_plain in others if is_plain and href != text]
    assert not [href for href, _, is_plain in others if not is_plain and not href.startswith("http://evil.invalid")]
    assert not [url for url in asked if "evil" in url]


def test_the_policy_of_the_page_lets_our_script_run_and_no_other(sheet: Page, tmp_path: Path) -> None:
    text = as_page(small()).replace("</main>", "<script>window.__pwned=1</script></main>")
    (tmp_path / "x.html").write_text(text, encoding="utf-8")
    sheet.goto((tmp_path / "x.html").as_uri())
    assert sheet.evaluate("window.__pwned") is None
    assert sheet.locator("#nbd-query").is_visible()  # our script shows the search


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_of_the_page(browser: Browser, tmp_path: Path, shots: Path, width: int, scheme: str) -> None:
    path = small().save(tmp_path / "x.html", include_samples=True)
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    page.screenshot(path=shots / f"report-{width}-{scheme}.png")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_long_names_do_not_widen_a_phone(browser: Browser, tmp_path: Path) -> None:
    path = hostile(["A" * 10_000]).save(tmp_path / "x.html")
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_search_leaves_what_matches(sheet: Page, tmp_path: Path) -> None:
    sheet.goto(small().save(tmp_path / "x.html").as_uri())
    sheet.fill("#nbd-query", "split")
    assert sheet.locator(".nbd-checks li:visible code").all_text_contents() == ["split-leakage", "split-shift"]
    assert "2 of" in sheet.locator("#nbd-hits").text_content()
    sheet.fill("#nbd-query", "")
    assert sheet.locator("#cause .nbd-card").is_visible()
    assert not sheet.locator("#skipped .nbd-checks").first.is_visible()


def test_a_symptom_is_found_within_its_cause(sheet: Page, tmp_path: Path) -> None:
    sheet.goto(small().save(tmp_path / "x.html").as_uri())
    sheet.fill("#nbd-query", "cannot-overfit-batch")
    assert sheet.locator("#cause .nbd-card").is_visible()
    assert sheet.locator(".nbd-symptom:visible").count() == 1


def test_a_link_to_a_folded_finding_unfolds_it(sheet: Page, tmp_path: Path) -> None:
    path = small().save(tmp_path / "x.html")
    sheet.goto(path.as_uri())
    anchor = sheet.locator("#others .nbd-card").first.get_attribute("id")
    assert not sheet.locator(f"#{anchor} table").first.is_visible()
    sheet.goto(f"{path.as_uri()}#{anchor}")
    assert sheet.locator(f"#{anchor} table").first.is_visible()


def test_code_is_copied_by_the_keyboard(sheet: Page, tmp_path: Path) -> None:
    sheet.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sheet.goto(small().save(tmp_path / "x.html").as_uri())
    sheet.locator(".nbd-copy").first.focus()
    sheet.keyboard.press("Enter")
    sheet.wait_for_function("document.querySelector('.nbd-copy').textContent === 'Copied'")
    assert "nn.Linear(64, 10)" in sheet.evaluate("navigator.clipboard.readText()")


def test_every_picture_has_a_name_and_every_heading_its_level(sheet: Page, tmp_path: Path) -> None:
    sheet.goto(small().save(tmp_path / "x.html", include_samples=True).as_uri())
    unnamed = "[...document.querySelectorAll('svg, img')].filter(e => !(e.getAttribute('aria-label') || e.alt)).length"
    assert sheet.evaluate(unnamed) == 0
    levels = [
        int(tag[1]) for tag in sheet.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(e => e.localName)")
    ]
    assert levels.count(1) == 1
    assert sheet.evaluate("document.querySelectorAll('main').length") == 1
    ids = sheet.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


CONTRAST = """() => {
  const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const parse = (s) => { const m = s.match(/[\\d.]+/g).map(Number); return [m.slice(0, 3), m.length > 3 ? m[3] : 1]; };
  const over = (top, alpha, under) => under.map((v, i) => top[i] * alpha + v * (1 - alpha));
  const parents = (e) => (e ? [...parents(e.parentElement), getComputedStyle(e)] : []);
  const low = [];
  for (const e of document.querySelectorAll('.nbdebug-report *')) {
    if (e.closest('svg') || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const styles = parents(e);
    const under = styles.map((s) => parse(s.backgroundColor)).reduce((u, [c, a]) => over(c, a, u), [255, 255, 255]);
    const fade = styles.reduce((o, s) => o * Number(s.opacity), 1);
    const ink = over(parse(getComputedStyle(e).color)[0], fade, under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${e.className} ${e.textContent.slice(0, 40)}`);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(browser: Browser, tmp_path: Path, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(small().save(tmp_path / "x.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(CONTRAST) == []
    context.close()


def test_printing_opens_everything(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(small().save(tmp_path / "x.html").as_uri())
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") > 3
    assert len(page.pdf(format="A4")) > 20_000
    context.close()


def test_the_notebook_as_a_page_shows_its_pictures(sheet: Page, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text(notebook_form(small()), encoding="utf-8")
    sheet.goto((tmp_path / "x.html").as_uri())
    pictures = sheet.evaluate("[...document.images].map(i => i.complete && i.naturalWidth > 100)")
    assert len(pictures) >= 4 and all(pictures)
    assert json.loads(as_notebook(small()))["metadata"]["kernelspec"]["name"] == "python3"
