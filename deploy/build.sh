#!/usr/bin/env bash
# Configures and builds: deploy/build.sh DIR [CMake options...] [-- TARGETS...]
# With -DFOLIO_CUDA=ON it takes the CUDA Toolkit that deploy/cuda_toolkit.sh finds or makes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:?usage: deploy/build.sh DIR [CMake options...] [-- targets...]}
shift
# Compiled once, whatever directory the checkout is in.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
# Without these it would not keep what was compiled with precompiled headers.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# A precompiled header has 350 MB, which it would otherwise read for each file that uses it.
export CCACHE_INODECACHE=1
# Other people's crates are compiled once for all checkouts. A cargo before 1.91 takes no notice.
export CARGO_BUILD_BUILD_DIR=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/cargo
options=()
cmake=cmake
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
[ $# -eq 0 ] || shift
if [[ " ${options[*]} " == *" -DFOLIO_CUDA=ON "* ]]; then
  paths=$("$root/deploy/cuda_toolkit.sh")
  path() { sed -n "s/^$1=//p" <<<"$paths"; }
  cmake=$(path CMAKE)
  options+=(-DCUDAToolkit_ROOT="$(path CUDA_ROOT)" -DCMAKE_CUDA_COMPILER="$(path CUDA_ROOT)/bin/nvcc"
    -DFOLIO_NCCL_ROOT="$(path NCCL_ROOT)" -DFOLIO_CUOBJDUMP="$(path CUOBJDUMP)"
    -DFOLIO_FLASHINFER_INCLUDE="$(path FLASHINFER_INCLUDE)" -DFOLIO_CUTLASS_INCLUDE="$(path CUTLASS_INCLUDE)")
fi
# The Rust crates are compiled once for all build directories.
mkdir -p "$dir"
"$cmake" -G Ninja -S "$root" -B "$dir" -DFOLIO_CARGO_DIR="$root/build-cargo" "${options[@]}" >"$dir/configure.log" 2>&1 || {
  cat "$dir/configure.log" >&2
  echo "build: CMake could not configure $dir" >&2
  exit 1
}
# Ninja keeps a terminal informed by itself; elsewhere (a log) every line would be a target.
if [ -t 1 ]; then
  ninja -C "$dir" "$@"
else
  ninja -C "$dir" "$@" >"$dir/build.log" 2>&1 || { tail -n 80 "$dir/build.log" >&2; exit 1; }
fi
