"""The site of the documentation in Chromium: its search finds a check, and nothing is asked of any other server."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from site_pages import build


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Build the site and serve it on this machine."""
    site = build(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_it_is_searched_and_read_without_the_network(address: str, browser: Browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/index.html")
    page.locator('[data-md-component="search-query"]').fill("dead-units")
    hit = page.locator(".md-search-result__link").filter(has_text="dead-units").first
    hit.wait_for(timeout=60_000)
    page.goto(f"{address}/checks/dead-units.html")
    page.get_by_text("The imports and helpers of both").click()
    assert page.get_by_text("from tests.zoo.tabular import digits").is_visible()
    page.goto(f"{address}/architecture.html")
    assert page.locator("img").first.evaluate("image => image.naturalWidth") > 0
    page.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert len(asked) > 10
