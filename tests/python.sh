#!/usr/bin/env bash
# Prepares the Python environment of the tests, outside the repository, and prints its interpreter.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/tests-venv
if ! cmp -s "$here/requirements.txt" "$venv/.requirements"; then
  echo "[tests] preparing the Python environment" >&2
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" --disable-pip-version-check install -q -r "$here/requirements.txt" >&2
  cp "$here/requirements.txt" "$venv/.requirements"
fi
echo "$venv/bin/python"
