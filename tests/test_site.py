"""The site of the documentation builds, its links lead somewhere, and it asks the network for nothing."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from site_pages import build, relinked


class Page(HTMLParser):
    """Collects what a page links to, what it loads, and the places that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("link", "script", "img", "iframe", "source"):
            self.loads += [given[name] for name in ("src", "href") if name in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """Build once; strict mode makes every warning an error."""
    folder = build(tmp_path_factory.mktemp("build"))
    return {path: Page(path) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}


def test_links_and_their_anchors_lead_somewhere(site: dict[Path, Page]) -> None:
    assert len(site) > 100
    seen = 0
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.name} links to {link}"
            if parts.fragment and parts.fragment != "__skip":
                assert unquote(parts.fragment) in site[target].places, f"{path.name} links to {link}"
            seen += 1
    assert seen > 1000


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, Page]) -> None:
    for path, page in site.items():
        assert page.loads
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{path.name} loads {address}"
            assert (path.parent / unquote(urlsplit(address).path)).exists(), f"{path.name} loads {address}"


def test_links_of_a_page_are_taken_along() -> None:
    text = "[a](docs/tree.md#x) ![b](docs/images/c.png) [d](tests/examples.py) [e](https://f.g)\n```\n[h](docs/i.md)\n```\n"
    expected = "[a](tree.md#x) ![b](images/c.png) d [e](https://f.g)\n```\n[h](docs/i.md)\n```\n"
    assert relinked(text, "README.md") == expected
    assert relinked("[up](../checks.md)", "docs/checks/dead-units.md") == "[up](../checks.md)"
