#!/usr/bin/env bash
# Makes a Hugging Face directory of the reference model's GGUF file, unless there is one, and prints its path. FOLIO_CACHE chooses
# where it lies (default ${XDG_CACHE_HOME:-~/.cache}/folio).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
directory=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/SmolLM2-135M-Instruct-hf
python=$("$root/tests/python.sh")
model=$("$root/deploy/fetch_model.sh")
"$python" "$root/tests/model/gguf_to_hf.py" "$model" "$directory" --if-missing >&2
echo "$directory"
