"""The page of the report as data, made from the JSON schema that the package carries."""

from __future__ import annotations

from typing import Any

from nbdebug.report.schema import report_schema

__all__ = ["schema_page"]

ABOUT = """\
# The report as data

`report.save("report.json")` and `python -m nbdebug diagnose … --format json` write what `report.to_dict()` returns, as
plain JSON; `nbdebug.load("report.json")` and `Report.from_dict(data)` read it back. This page describes
**schema {version}**. The number grows when a reader of the older form would go wrong; nbdebug refuses a number that it
does not know and says what to do. New keys may be added without a new number, so ignore those that you do not know.

`python -m nbdebug schema` prints the JSON schema (draft 2020-12) that this page is made from; in Python it is
`nbdebug.report.schema.report_schema()`, and any validator takes it:

```python
import json
import jsonschema
from nbdebug.report.schema import report_schema

nbdebug.diagnose(model, loader, effort="quick").save("report.json")
jsonschema.validate(json.load(open("report.json")), report_schema())
```

Numbers that JSON cannot hold are written as the texts `"nan"`, `"inf"` and `"-inf"`. In a saved file the folders of
file paths are left out of every text. Values of single samples are left out as well unless `include_samples=True` was
given: pictures, tables and curves that are marked as `samples`, and what a finding `quotes` from the data.
`report.to_dict()` leaves nothing out. A key marked * is missing in files of older versions.
"""
EXHIBITS = ("bars", "lines", "histograms", "table", "images")


def schema_page() -> str:
    """Return the page: one table for each kind of object."""
    schema = report_schema()
    kinds = schema["$defs"]
    parts = [ABOUT.format(version=schema["properties"]["schema"]["const"]), *_section("## report", schema)]
    for name in ("finding", "remedy", "verification", "contest", "result", "place"):
        parts += _section(f"## {name}", kinds[name])
    parts.append("## Exhibits\n")
    for name in EXHIBITS:
        parts += _section(f"### {name}", kinds[name])
    return "\n".join(parts)


def _section(title: str, kind: dict[str, Any]) -> list[str]:
    rows = [
        f"| `{key}`{'' if key in kind['required'] else ' *'} | {_type(value)} | {value.get('description', '')} |"
        for key, value in kind["properties"].items()
    ]
    return [f"{title}\n", "| key | type | meaning |", "| --- | --- | --- |", *rows, ""]


def _type(value: dict[str, Any]) -> str:
    """Return a type in words."""
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{item}`" if item else "empty" for item in value["enum"])
    if "anyOf" in value:
        return " or ".join(_type(item) for item in value["anyOf"])
    if "prefixItems" in value:
        return f"[{', '.join(_type(item) for item in value['prefixItems'])}]"
    if value["type"] == "array" and "items" in value:
        return f"list of {_type(value['items'])}"
    if value["type"] == "object" and "additionalProperties" in value:
        return f"object of {_type(value['additionalProperties'])}"
    name = str(value["type"])
    return {"string": "text", "boolean": "true or false", "array": "list"}.get(name, name)
