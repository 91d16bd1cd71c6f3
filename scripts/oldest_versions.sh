#!/usr/bin/env bash
# Try the oldest allowed version of each package, in an environment of its own: oldest_versions.sh PYTHON
# torch is the release of constraints.txt: other releases bring gigabytes of CUDA packages on Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
place=build/oldest
test -x "$place/bin/python" || "$python" -m venv "$place"
"$python" - > "$place/wanted.txt" <<'PY'
import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"]["lab"], *project["optional-dependencies"]["tune"]]
for line in wanted:
    name, lowest = re.match(r"([\w-]+)>=([\d.]+)", line).groups()
    if name != "torch":
        print(f"{name}=={lowest}{'.0' * (2 - lowest.count('.'))}")
PY
"$place/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -r "$place/wanted.txt" torch
"$place/bin/python" -m pip list --disable-pip-version-check
PYTHONPATH=. "$place/bin/python" scripts/smoke.py "$place"
