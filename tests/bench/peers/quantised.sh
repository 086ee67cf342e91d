#!/usr/bin/env bash
# Folio with quantised weights as they are stored, beside itself with bf16 weights and llama.cpp:
#   tests/bench/peers/quantised.sh OUT_DIR [MIX...]
# Models have random weights and the shape of Llama-3.2-1B. All programs take turns, FOLIO_ROUNDS times (2), and the best of each counts.
# PEERS_PYTHON is a Python with llama-cpp-python and gguf, such as that of run.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=$1
shift
mixes=("${@:-Q4_K_M}")
threads=${FOLIO_THREADS:-$(nproc)}
python=${PEERS_PYTHON:-python3}
bench=${FOLIO_BIN:-$root/build/bin}/folio_bench
mkdir -p "$out"

folio() { # NAME FILE FLAGS...
  local name=$1 file=$2
  shift 2
  "$bench" --model="$file" --threads="$threads" --manager_cost=false --budgets=0 --prompts=2048 --batches=1 --contexts=1024 \
    --json="$out/$name.1.json" "$@" >"$out/$name.1.txt"
  "$bench" --model="$file" --threads="$threads" --manager_cost=false --budgets=0 --prompts= --batches=8 --contexts=2048 \
    --json="$out/$name.8.json" "$@" >"$out/$name.8.txt"
}

for mix in "${mixes[@]}"; do
  file=$out/random-1b-$mix.gguf
  [ -e "$file" ] || "$python" "$root/tests/model/random_gguf.py" "$file" --shape 1b --mix "$mix"
  for round in $(seq "${FOLIO_ROUNDS:-2}"); do
    echo "[quantised] $mix, round $round: load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
    folio "$mix.$round.as-is" "$file" --weights=as-is
    "$python" "$here/llama_peer.py" "$file" "$out/$mix.$round.llama.json" --threads "$threads" --large
    folio "$mix.$round.bfloat16" "$file" --weights=bfloat16
  done
done
"$python" "$here/quantised_report.py" "$out" | tee "$out/table.txt"
