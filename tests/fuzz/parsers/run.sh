#!/usr/bin/env bash
# Builds and runs the fuzz targets: tests/fuzz/parsers/run.sh [--keep] [TIME] [TARGET...]
# TIME is the seconds of each target (60), "long" for 30 minutes of each, or "total=SECONDS", which the targets share.
# FOLIO_FUZZ_JOBS of them (1) run side by side. With --keep the corpus that was found, made small, becomes the kept one.
# Ends with 75 if this machine has no Clang with libFuzzer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$root/build-fuzz
all=(session journal tokenizer_json gguf_tokenizer chat_template export_socket gguf hf_config safetensors model_json
  openai_request request_json http_request access_files)
keep=
[ "${1:-}" != --keep ] || { keep=1; shift; }
time=${1:-60}
[ $# -eq 0 ] || shift
targets=("$@")
[ $# -gt 0 ] || targets=("${all[@]}")
jobs=${FOLIO_FUZZ_JOBS:-1}
seconds=${time#total=}
[ "$time" != long ] || seconds=1800
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: '$time' is neither a number of seconds, nor long, nor total=SECONDS" >&2; exit 2; }
[ "$time" = "$seconds" ] || [ "$time" = long ] || seconds=$((seconds * jobs / ${#targets[@]}))

runtime=$(clang++-16 --print-file-name=libclang_rt.fuzzer-x86_64.a 2>/dev/null || true)
[ -e "$runtime" ] || runtime=$(clang++-16 --print-file-name=libclang_rt.fuzzer-aarch64.a 2>/dev/null || true)
[ -e "$runtime" ] || { echo "fuzz: no clang-16 with libFuzzer here: deploy/setup.sh --fuzz installs it" >&2; exit 75; }

"$root/deploy/build.sh" "$build" -DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1" \
  -DFOLIO_FUZZERS=ON -- "${targets[@]/#/fuzz_}"

one() {  # target
  local name=$1 rc=0 work=$build/run/$1 log=$build/run/$1/log
  rm -rf "$work"
  mkdir -p "$work/corpus" "$work/found"
  "$here/seeds.py" "$name" "$work/corpus"
  [ ! -e "$here/corpus/$name.tar.xz" ] || tar -xJf "$here/corpus/$name.tar.xz" -C "$work/corpus"
  local limits=(-rss_limit_mb=1024 -max_len=4096 -timeout=10) until=$((SECONDS + seconds)) left=$seconds
  [ ! -s "$work/corpus.words" ] || limits+=(-dict="$work/corpus.words")
  [ "$name" != journal ] || limits+=(-close_fd_mask=2)  # a manager logs each damage
  # A target that has used up what only the end of a process gives back ends with 99, and begins again.
  while rc=0; do
    "$build/bin/fuzz_$name" "${limits[@]}" -max_total_time="$left" -print_final_stats=1 -artifact_prefix="$work/found/" \
      "$work/corpus" >>"$log" 2>&1 || rc=$?
    left=$((until - SECONDS))
    [ "$rc" -eq 99 ] || break
    rc=0
    [ "$left" -gt 0 ] || break
  done
  local runs coverage ended=clean
  runs=$(awk '/stat::number_of_executed_units/ { sum += $2 } END { print sum }' "$log")
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d ' ' -f 2 || true)
  [ "$rc" -eq 0 ] || ended="FAILED with $rc, see ${log#"$root/"} and ${work#"$root/"}/found"
  printf '%-14s %5d s  %10s executions  %6s coverage  %5d inputs  %s\n' "$name" "$seconds" "${runs:-?}" "${coverage:-?}" \
    "$(find "$work/corpus" -type f | wc -l)" "$ended"
  [ "$rc" -eq 0 ] || return 1
  if [ -n "$keep" ]; then
    mkdir "$work/small"
    "$build/bin/fuzz_$name" "${limits[@]}" -merge=1 "$work/small" "$work/corpus" >>"$log" 2>&1
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cJf "$here/corpus/$name.tar.xz" -C "$work/small" .
  fi
}

failed=0 running=0
for name in "${targets[@]}"; do
  if [ "$running" -ge "$jobs" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  one "$name" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
