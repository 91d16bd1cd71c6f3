#!/usr/bin/env bash
# Installs Debian's Chromium for the browser tests where that is allowed, and says plainly where it is not:
# the tests are then skipped, never failed.
set -u

command -v chromium >/dev/null 2>&1 && exit 0

skip() {
  echo "No Chromium: the browser tests will be skipped ($1)." >&2
  exit 0
}

command -v apt-get >/dev/null 2>&1 || skip "there is no apt-get to install it with"
if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  skip "installing it needs root; 'apt-get install chromium' does it"
fi

echo "Installing Chromium for the browser tests."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium)
if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" "${install[@]}"; } >"$log" 2>&1; then
  tail -n 5 "$log" >&2
  skip "apt-get could not install it"
fi
command -v chromium >/dev/null 2>&1 || skip "the package brought no program called chromium"
