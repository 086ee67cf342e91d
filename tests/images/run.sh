#!/usr/bin/env bash
# Builds Folio's images from programs that are compiled, and tests them: tests/images/run.sh [PYTEST-OPTIONS...]
# FOLIO_BIN has the programs (default build/bin), FOLIO_MODEL the reference model (fetched if it is not set).
# Needs root. It installs buildah and runc where they are missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
say() { printf '[images] %s\n' "$*"; }
die() { echo "tests/images/run.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || die "containers with namespaces need root here: run it as root"
bin=${FOLIO_BIN:-$root/build/bin}
[ -x "$bin/folio-manager" ] || die "there are no programs in $bin: run deploy/build.sh build, or set FOLIO_BIN"

work=$(mktemp -d)
# Storage is left to buildah to remove, so that its mounts end first.
cleanup() {
  buildah --storage-driver vfs --root "$work/storage/root" --runroot "$work/storage/run" rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT

missing=()
for package in buildah runc; do command -v $package >/dev/null || missing+=("$package"); done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; die "could not install ${missing[*]}"; }
fi

deploy/images/build.sh --engine=buildah --programs="$bin" --storage="$work/storage"
FOLIO_MODEL=${FOLIO_MODEL:-$(deploy/fetch_model.sh)}
FOLIO_IMAGES_TAG=$(sed -nE 's/^project\(folio VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
export FOLIO_MODEL FOLIO_IMAGES_TAG FOLIO_IMAGES=$work/storage
"$(tests/python.sh)" -m pytest -q -p no:cacheprovider "$@" tests/images
