#!/usr/bin/env bash
# Writes the synthetic tasks of RULER for the reference model, from the generators in lm-evaluation-harness:
#   tests/eval/ruler/ruler.sh OUT LENGTHS [options of generate.py]      such as: ruler.sh out 2048,4096 --tasks vt,cwe
# Files are OUT/LENGTH/TASK.jsonl, which the task ruler:FILE of folio_eval reads. FOLIO_CACHE chooses where the environment and
# the tokenizer lie (default ${XDG_CACHE_HOME:-~/.cache}/folio).
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../../.." && pwd)
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
out=$1 lengths=$2
shift 2
directory=$("$root/tests/model/hf_directory.sh")
novel=$("$root/tests/eval/texts.sh" novel)
python=$("$root/deploy/python_env.sh" "$cache/ruler-venv" "$root/tests/eval/ruler/requirements.txt" --no-deps)
# The generators show bars and every length that they try, and transformers says that it finds no PyTorch.
HF_HUB_OFFLINE=1 TQDM_DISABLE=1 TRANSFORMERS_NO_ADVISORY_WARNINGS=1 "$python" "$root/tests/eval/ruler/generate.py" \
  --tokenizer "$directory" --novel "$novel" --out "$out" --lengths "$lengths" "$@" >/dev/null
