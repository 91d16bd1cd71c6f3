#!/usr/bin/env bash
# Runs the tests of what happens while a cell runs with several ipykernels: test_kernels.sh PYTHON VERSION...
# Each version gets an environment of its own in front of PYTHON's, so that nothing but ipykernel differs.
set -euo pipefail
python=$1
shift
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
for version in "$@"; do
  place=build/kernels/$version
  own=$place/bin/python
  test -x "$own" || "$python" -m venv --without-pip "$place"
  here=$("$own" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  echo "$packages" > "$here/others.pth"
  wanted=ipykernel$(test "$version" = newest || echo "==$version")
  "$python" -m pip install -q --disable-pip-version-check --no-deps --upgrade --target "$here" "$wanted"
  echo "ipykernel $("$own" -c 'import ipykernel; print(ipykernel.__version__)')"
  NBDEBUG_KERNEL=$PWD/$own OMP_NUM_THREADS=1 "$python" -m pytest -q tests/widgets/test_in_a_kernel.py tests/views/test_in_a_kernel.py
done
