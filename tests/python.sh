#!/usr/bin/env bash
# Prepares the Python environment of the tests, outside the repository, with the Python SDK as it is in this
# tree, and prints its interpreter. Changes are installed over what is there: tests may be running in it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
venv=$cache/tests-venv
mkdir -p "$cache"
exec 9>"$cache/tests-venv.lock"
flock 9  # one at a time

"$root/deploy/python_env.sh" "$venv" "$here/requirements.txt" >/dev/null

# What the SDK is built from; stubs.py asks as well, so that pytest started by hand sees the same.
sources=(services/client/python/{src,pyproject.toml,setup.py,README.md} proto/folio)
state=$(cd "$root" && find "${sources[@]}" -type f ! -name '*_pb2*' ! -name '*.pyc' ! -path '*.egg-info/*' -print0 |
  LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
if [ "$state" != "$(cat "$venv/.sdk" 2>/dev/null)" ]; then
  echo "[tests] building the Python SDK" >&2
  # In a copy: setuptools leaves its work beside the sources, and takes up what an earlier build left there.
  copy=$(mktemp -d "${TMPDIR:-/tmp}/folio-sdk.XXXXXX")
  trap 'rm -rf "$copy"' EXIT
  (cd "$root/services/client/python" && cp -rL src pyproject.toml setup.py README.md LICENSE "$copy")
  cp -r "$root/proto" "$copy"
  find "$copy/src" \( -name '*_pb2*' -o -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
  "$venv/bin/python" -m pip --disable-pip-version-check -q install --no-build-isolation --no-deps --force-reinstall \
    "$copy" >&2
  echo "$state" >"$venv/.sdk"
fi
echo "$venv/bin/python"
