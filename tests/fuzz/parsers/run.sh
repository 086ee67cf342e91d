#!/usr/bin/env bash
# Builds and runs the fuzz targets: tests/fuzz/parsers/run.sh [--keep] [SECONDS of each, or "long" for 30 minutes] [TARGET...]
# FOLIO_FUZZ_JOBS of them (1) run side by side. With --keep the corpus that was found, made small, becomes the kept one.
# Ends with 75 if this machine has no Clang with libFuzzer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$root/build-fuzz
keep=
[ "${1:-}" != --keep ] || { keep=1; shift; }
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ "$seconds" != long ] || seconds=1800
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: '$seconds' is not a number of seconds" >&2; exit 2; }
targets=("$@")
[ $# -gt 0 ] || targets=(gguf safetensors model_json request_json http_request)

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
  local limits=(-rss_limit_mb=1024 -max_len=4096 -timeout=10)
  "$build/bin/fuzz_$name" "${limits[@]}" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$work/found/" \
    "$work/corpus" >"$log" 2>&1 || rc=$?
  local runs coverage ended=clean
  runs=$(awk '/stat::number_of_executed_units/ { print $2 }' "$log")
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
  if [ "$running" -ge "${FOLIO_FUZZ_JOBS:-1}" ]; then
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
