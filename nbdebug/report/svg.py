"""Turns matplotlib's SVG into a small piece of markup that a page can hold: only known parts, colours of the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

__all__ = ["INK", "inlined"]

INK = "#010203"  # stands for the page's own text colour, so that one picture fits light and dark
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_PARTS = frozenset({"svg", "g", "path", "text", "tspan", "use", "defs", "clipPath", "rect", "image"})
_ATTRIBUTES = frozenset(
    "d x y dx dy width height transform viewBox clip-path style id preserveAspectRatio fill stroke".split()
)
_NUMBER = re.compile(r"(\d+\.\d{2})\d+")


def inlined(source: str, label: str) -> str:
    """Rebuild the picture from parts that are known to be harmless, with a text for those who cannot see it."""
    root = ElementTree.fromstring(source)
    used = set(re.findall(r"url\(#([\w-]+)\)", source)) | set(re.findall(r'href="#([\w-]+)"', source))
    clean = _copied(root, used)
    clean.attrib.pop("width", None)
    clean.attrib.pop("height", None)
    clean.set("xmlns", "http://www.w3.org/2000/svg")
    clean.set("role", "img")
    clean.set("aria-label", label)
    text = ElementTree.tostring(clean, encoding="unicode")
    return text.replace(INK, "currentColor")


def _copied(element: ElementTree.Element, used: set[str]) -> ElementTree.Element:
    copy = ElementTree.Element(element.tag.removeprefix(_SVG), dict(_attributes(element, used)))
    copy.text = element.text if copy.tag in {"text", "tspan"} else None
    copy.extend(_copied(child, used) for child in element if str(child.tag).removeprefix(_SVG) in _PARTS)
    return copy


def _attributes(element: ElementTree.Element, used: set[str]) -> list[tuple[str, str]]:
    kept = []
    for name, value in element.attrib.items():
        if name == _LINK and value.startswith(("#", "data:image/png;base64,")):
            kept.append(("href", value))
        elif name == "id" and value not in used:
            continue
        elif name == "style":
            kept.append((name, _style(value)))
        elif name in _ATTRIBUTES:
            kept.append((name, _NUMBER.sub(r"\1", value) if name in {"d", "x", "y", "transform"} else value))
    return kept


def _style(value: str) -> str:
    """Take the page's font instead of matplotlib's."""
    return re.sub(r"font: (?:\w+ )*?([\d.]+px)[^;]*", r"font-size: \1", value)
