#!/usr/bin/env bash
# What needs a GPU, in one command: kernels against their twins, the reference's generations, the sanitizer,
# a worker that is killed, and speed, in one process and through sockets. At most 8 minutes on the machine's
# first GPU, once things are built.
#   tests/gpu/run.sh [--out DIR] [--model FILE] [--seconds N] [--only SECTION,...] [--speed_flag=FLAG] [--vllm DIR]
#   tests/gpu/run.sh --bundle DIR ...   with the programs of tests/gpu/bundle.sh: no network, nothing is built
#   DIR/run.sh ...                      the same, from inside the bundle
#   tests/gpu/run.sh --sanitizers ...   instead: memcheck, synccheck, initcheck and racecheck over all kernels
# Writes results.json, results.md and logs/ to DIR (default gpu-results, or gpu-sanitizers). Exit codes: 0 right,
# 1 something failed, 2 bad arguments, 3 something was not run that is to be right, 77 no GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

bundle="" out="" otherwise=gpu-results arguments=()
[ ! -f "$here/bundle.txt" ] || bundle=$here
while [ $# -gt 0 ]; do
  case $1 in
    --bundle | --out)
      [ $# -ge 2 ] || { echo "run.sh: $1 wants a folder" >&2; exit 2; }
      if [ "$1" = --out ]; then out=$2; else bundle=$2; fi
      shift
      ;;
    --bundle=*) bundle=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --sanitizers) otherwise=gpu-sanitizers arguments+=("$1") ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
out=${out:-$otherwise}
mkdir -p "$out"
out=$(cd "$out" && pwd)
command -v python3 >/dev/null || { echo "run.sh: python3 is needed" >&2; exit 2; }

export PYTHONDONTWRITEBYTECODE=1
suite() {  # folder of its modules, arguments
  PYTHONPATH=$1 python3 -m suite --out "$out" "${@:2}"
}

if [ -n "$bundle" ]; then
  [ -f "$bundle/bundle.txt" ] || { echo "run.sh: $bundle is no bundle: tests/gpu/bundle.sh makes one" >&2; exit 2; }
  bundle=$(cd "$bundle" && pwd)
  commit=$(sed -n 's/^commit //p' "$bundle/bundle.txt")
  given=(--bin "$bundle/bin" --lib "$bundle/lib" --oracle "$bundle/oracle" --commit "$commit")
  [ ! -f "$bundle/model.gguf" ] || given+=(--model "$bundle/model.gguf")
  [ ! -d "$bundle/nccl" ] || given+=(--nccl "$bundle/nccl")
  export FOLIO_CUDA_TOOLS=$bundle
  suite "$bundle" "${given[@]}" "${arguments[@]}"
  exit
fi

root=$(cd "$here/../.." && pwd)
commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
given=(--oracle "$root/tests/oracle" --commit "$commit")
build=$root/build-cuda
# Where there is no GPU, nothing is built to say so.
if PYTHONPATH=$here python3 -c 'import sys; from suite import facts; sys.exit(facts.gather()["device"] is None)'; then
  "$root/deploy/setup.sh" --tests
  model=$("$root/deploy/fetch_model.sh")
  given+=(--model "$model")
  # shellcheck source=tests/gpu/programs.sh
  . "$here/programs.sh"
  echo "[gpu] building (the first time takes some minutes; not part of the time limit)"
  "$root/deploy/build.sh" "$build" -DCMAKE_BUILD_TYPE=Release -DFOLIO_TESTS=ON -DFOLIO_CUDA=ON \
    -- "${FOLIO_GPU_PROGRAMS[@]}"
  # Without it two sections are skipped and say so.
  sanitizer=$("$root/deploy/cuda_toolkit.sh" --sanitizer | sed -n 's/^SANITIZER=//p') || true
  export FOLIO_CUDA_TOOLS=${sanitizer%/compute-sanitizer}
fi
suite "$here" --bin "$build/bin" "${given[@]}" "${arguments[@]}"
