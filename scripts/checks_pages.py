"""The pages of the checks: an overview, and for each check what its docstring says, with a failing example and its
cure.
"""

from __future__ import annotations

from check_examples import Example, examples
from thresholds_page import threshold_rows

from nbdebug.core.registry import CheckSpec, registry
from nbdebug.engine.decision_tree import stages

__all__ = ["checks_pages"]

ABOUT = """\
Each has a page of its own, made from the check's docstring, with code that has the bug and the same code fixed.
Both are cut out of the check's own tests by `make docs`, and run by `tests/test_check_examples.py`.
`nbdebug.explain("dead-units")` prints the words of a page, `nbdebug.list_checks()` lists all checks, and
[thresholds.md](thresholds.md) has the numbers that decide, with their sources.
"""
BASES = {
    "contradiction": "It judges a contradiction, which no sound program shows ([verdicts](../verdicts.md)).",
    "statistic": "It judges a statistic: a note where the training learns, a bug where the training fails and its fix "
    "rescues it ([verdicts](../verdicts.md)).",
}
EXAMPLE = """\
## Example

{about} nbdebug finds it here:

```python
{bad}```

and no longer here:

```python
{good}```

<details markdown="1">
<summary>The imports and helpers of both</summary>

```python
{helpers}```

`{name}()` gives {what}. The code is a failing example of [{file}](../../{file}); `tests.zoo` holds small data sets of
scikit-learn as loaders.

</details>
"""
GIVES = {
    "setup": "the arguments of `nbdebug.diagnose`",
    "recording": "a recorded training",
    "ranks": "on rank 0 a recorded training, if every process calls it under `torchrun --nproc-per-node=2` after\n"
    '`torch.distributed.init_process_group("gloo")`',
}


def checks_pages() -> dict[str, str]:
    """Return every page by its path within docs/."""
    shown = examples()
    tree = stages(registry)
    if bare := {check for stage in tree for check in stage.checks} - set(shown):
        raise SystemExit(
            f"No failing example of {', '.join(sorted(bare))} says how it is fixed ('# fixed:', CONTRIBUTING.md)."
        )
    overview = ["# What nbdebug checks\n", ABOUT]
    pages: dict[str, str] = {}
    for stage in tree:
        overview += [f"## {stage.title}\n", "| check | what is wrong |", "|---|---|"]
        for check in stage.checks:
            spec = registry.checks[check]
            overview.append(f"| [{check}](checks/{check}.md) | {spec.title} |")
            pages[f"checks/{check}.md"] = _page(spec, stage.title, shown[check])
        overview.append("")
    return {"checks.md": "\n".join(overview), **pages}


def _page(spec: CheckSpec, stage: str, example: Example) -> str:
    lines = [f"# {spec.id}\n", f"**{spec.title}**\n", f"{spec.texts['about']}\n"]
    lines += [f"{BASES[spec.basis]}\n"]
    lines += ["## Why it matters\n", f"{_sentence(spec.why)}\n", "## What to try\n", f"{_sentence(spec.remedy)}\n"]
    lines.append(_shown(example))
    if spec.thresholds:
        rows = "\n".join(threshold_rows(spec.id).values())
        lines.append(f"## Thresholds\n\n| name | value | source |\n|---|---|---|\n{rows}\n")
        name, value = next(iter(spec.thresholds.items()))
        how = f'{{"{spec.id}": {{"{name}": {value!r}}}}}'
        lines.append(f"`nbdebug.diagnose(..., thresholds={how})` sets another; [all thresholds](../thresholds.md).\n")
    lines.append("## Place\n")
    lines.append(f"It belongs to the stage [{stage}](../checks.md) of [the tree](../tree.md).")
    if spec.explains:
        links = ", ".join(f"[{check}]({check}.md)" for check in spec.explains)
        lines.append(f"Where both are found, it explains {links}.")
    return "\n".join(line for line in lines if line.strip()) + "\n"


def _shown(example: Example) -> str:
    return EXAMPLE.format(
        about=example.about.partition("\n")[0],
        bad=example.bad,
        good=example.good,
        helpers=example.helpers,
        name=example.name,
        what=GIVES[example.kind],
        file=example.file,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
