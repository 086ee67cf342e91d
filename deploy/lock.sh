#!/usr/bin/env bash
# Makes the locks of all Python environments again.
#   deploy/lock.sh [uv's options, such as --upgrade]
# Each *requirements.in names the packages that one environment is for. The *requirements.txt beside it is its lock. It
# has every package that these depend on, with its version and the hashes of its files, for Python 3.11 and newer on
# every platform. Versions that are locked stay, unless the .in asks for others or --upgrade is given.
# uv does this; it comes from a lock too (deploy/requirements.txt). Commit both files.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
python=$("$root/deploy/python_env.sh" "$cache/lock-venv" "$root/deploy/requirements.txt")
cd "$root"

lock() {  # the .in, uv's options
  echo "[lock] ${1%.in}.txt" >&2
  # A universal lock has no platform of its own. No address of a package index is written into it.
  "$(dirname "$python")/uv" pip compile -q --no-config --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command deploy/lock.sh -o "${1%.in}.txt" "$@"
}
mapfile -t build < <(git ls-files --cached --others --exclude-standard '*build-requirements.in')
mapfile -t rest < <(git ls-files --cached --others --exclude-standard '*requirements.in' ':!*build-requirements.in')
for input in "${build[@]}"; do lock "$input" "$@"; done
for input in "${rest[@]}"; do
  tools=$(dirname "$input")/build-requirements.txt
  options=()
  # An environment has one version of a package: the one that its build tools have.
  [ ! -f "$tools" ] || options=(-c "$tools")
  lock "$input" "${options[@]}" "$@"
done
