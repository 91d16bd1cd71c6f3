"""Builds the site of the documentation with MkDocs (`make docs`); a link that leads nowhere is an error.

The pages are those that are read in the repository: README.md becomes the first one. A link to a file that is not part
of the site, such as a notebook or a test, becomes the name of that file.
"""

from __future__ import annotations

import argparse
import logging
import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def main() -> int:
    """Lay the pages out, then build."""
    parser = argparse.ArgumentParser(description=__doc__)
    logging.basicConfig(format="%(levelname)s: %(message)s")  # without it, strict mode ends without a word
    parser.add_argument("--into", type=Path, default=ROOT / "build", help="the folder for pages/ and site/")
    build(parser.parse_args().into)
    return 0


def build(folder: Path) -> Path:
    """Build the site from the pages as they are now; give its folder."""
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    pages, site = folder / "pages", folder / "site"
    shutil.rmtree(pages, ignore_errors=True)
    lay_out(pages)
    config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(pages), site_dir=str(site), strict=True)
    config.nav = _navigation(config.nav or [], pages)
    mkdocs_build(config)
    return site


def lay_out(pages: Path) -> None:
    """Copy every page to its place in the site, with its links."""
    shutil.copytree(ROOT / "docs", pages)
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PAGES)]):
        source = path.relative_to(ROOT).as_posix()
        (pages / place_of(source)).write_text(relinked(path.read_text(encoding="utf-8"), source), encoding="utf-8")


def place_of(source: str) -> str:
    """Return where a file of the repository stands in the site; empty where it does not."""
    return PAGES.get(source, source.removeprefix("docs/") if source.startswith("docs/") else "")


def relinked(text: str, source: str) -> str:
    """Let the links of a page lead to the same files in the site; code is left alone."""
    here = posixpath.dirname(place_of(source))

    def link(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if not target or "://" in target:
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = place_of(file)
        if not place:
            return match["text"]
        return f"{match['image']}[{match['text']}]({posixpath.relpath(place, here or '.')}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def _navigation(nav: list[object], pages: Path) -> list[object]:
    """Put the pages of the checks below their overview, in the order of the tree, and what mkdocs.yml forgets last."""
    order = re.findall(r"\(checks/([\w-]+)\.md\)", (pages / "checks.md").read_text(encoding="utf-8"))
    named: set[str] = set()

    def filled(item: object) -> object:
        if isinstance(item, dict):
            return {title: filled(below) for title, below in item.items()}
        if isinstance(item, list):
            return [filled(below) for below in item]
        named.add(str(item))
        return ["checks.md", *(f"checks/{check}.md" for check in order)] if item == "checks.md" else item

    whole = [filled(item) for item in nav]
    others = sorted(path.name for path in pages.glob("*.md") if path.name not in named)
    return [*whole, {"More": others}] if others else whole


if __name__ == "__main__":
    sys.exit(main())
