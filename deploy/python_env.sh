#!/usr/bin/env bash
# Makes a Python environment of locked packages and prints its interpreter:
#   deploy/python_env.sh DIR REQUIREMENTS [--no-deps]
# REQUIREMENTS is a lock of deploy/lock.sh. pip refuses a package that the lock does not name, or whose hash it
# does not have. A package without a wheel is built with the packages of build-requirements.txt, a lock that lies
# beside REQUIREMENTS. Without that file only wheels are used, because pip would fetch build tools that are not locked.
# With --no-deps pip installs the lock as it is and checks afterwards that nothing is missing. A lock needs it if one of
# its packages asks for an extra of another, because pip 23 does not find such a package in a lock.
# A second call changes nothing. A changed lock is installed over the old one, because tests may be running in DIR.
set -euo pipefail
if [ $# -lt 2 ] || [ $# -gt 3 ] || [ "${3:---no-deps}" != --no-deps ]; then
  echo "usage: deploy/python_env.sh DIR REQUIREMENTS [--no-deps]" >&2
  exit 2
fi
venv=$1 lock=$2 as_it_is=${3:-}
tools=$(dirname "$lock")/build-requirements.txt
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "python_env: the locks are for Python 3.11 and newer, and python3 here is $(python3 --version 2>&1)" >&2
  exit 1
}
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.env-lock"
flock 9  # one at a time

locks=("$lock")
[ ! -f "$tools" ] || locks=("$tools" "$lock")
install() {
  "$venv/bin/python" -m pip --disable-pip-version-check -q install --require-hashes "$@" >&2
}
if ! "$venv/bin/python" -c "" 2>/dev/null; then
  rm -rf "$venv"
  python3 -m venv "$venv"
fi
# The name of the interpreter's version is in it: a new python3 under an old environment installs again.
state=$("$venv/bin/python" --version && cat "${locks[@]}")
if [ "$state" != "$(cat "$venv/.requirements" 2>/dev/null)" ]; then
  echo "[python] installing $lock into $venv" >&2
  how=(--only-binary :all:)
  if [ ${#locks[@]} -gt 1 ]; then
    install "${how[@]}" -r "$tools"
    how=(--no-build-isolation)
  fi
  install "${how[@]}" ${as_it_is:+"$as_it_is"} -r "$lock"
  [ -z "$as_it_is" ] || "$venv/bin/python" -m pip --disable-pip-version-check check >&2
  echo "$state" >"$venv/.requirements"
fi
echo "$venv/bin/python"
