#!/usr/bin/env bash
# Runs the tests of the callbacks against the real libraries: test_adapters.sh PYTHON
# They go into an environment of their own in front of PYTHON's: together they are larger than all the rest.
set -euo pipefail
python=$1
place=build/adapters
own=$place/bin/python
test -x "$own" || "$python" -m venv --without-pip "$place"
"$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
  > "$("$own" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/others.pth"
NBDEBUG_SKIP_JS=1 "$own" -m pip install -q --disable-pip-version-check -c constraints.txt \
  "nbdebug-torch[fastai,keras,lightning,transformers]"
# fastai asks for torchvision, of which a build for another torch breaks everything that looks for it.
"$own" -c 'import torchvision' 2>/dev/null || "$own" -m pip uninstall -q -y torchvision
"$own" -m pip list --disable-pip-version-check 2>/dev/null | grep -iE '^(accelerate|fastai|keras|lightning|torch|transformers) '
OMP_NUM_THREADS=1 "$own" -m pytest -q -p no:cacheprovider tests/integrations/adapters "${@:2}"
