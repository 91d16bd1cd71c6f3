#!/usr/bin/env bash
# Run tests beside busy processes, to find those that a slow machine turns red:
#   scripts/under_load.sh tests/watch tests/test_quick.py        (BUSY=8 processes unless told otherwise)
# Nothing is run again: what fails here depends on time.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
busy=()
stop() { [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true; }
trap stop EXIT
for _ in $(seq "${BUSY:-8}"); do
  "$python" -c 'while True: pass' &
  busy+=($!)
done
OMP_NUM_THREADS=1 "$python" -m pytest -q -p no:rerunfailures -n "${WORKERS:-0}" "$@"
