#!/usr/bin/env bash
# Finds or makes the tools that build Folio's CUDA parts.
#   deploy/cuda_toolkit.sh [--sanitizer] [DIR]
# Prints CUDA_ROOT, CMAKE, NCCL_ROOT, CUOBJDUMP, FLASHINFER_INCLUDE and CUTLASS_INCLUDE for `while IFS== read -r key value`.
# With --sanitizer, which only runs on a GPU need, it also prints SANITIZER, the folder of compute-sanitizer.
#
# An installed CUDA Toolkit of 12.4 or newer is used as it is. If there is none, CUDA 13.0 is unpacked
# into DIR (default build-cuda-toolkit in the repository) from the pinned wheels below, each checked by its
# SHA-256. Wheels stay in ${FOLIO_CACHE:-${XDG_CACHE_HOME:-~/.cache}/folio}/cuda-wheels, so that a second
# build downloads nothing. FlashInfer is its headers alone, with those of CUTLASS, as they are in its wheel.
# FOLIO_CUDA_WHEELS=1 takes the wheels even where a toolkit is installed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=deploy/cuda_wheels.sh
. "$root/deploy/cuda_wheels.sh"
sanitizer=
if [ "${1:-}" = --sanitizer ]; then
  sanitizer=1
  shift
fi
dir=$(realpath -m "${1:-$root/build-cuda-toolkit}")
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/cuda-wheels

say() { printf '[cuda] %s\n' "$*" >&2; }
fail() { printf 'cuda_toolkit: %s\n' "$*" >&2; exit 1; }
at_least() { printf '%s\n%s\n' "$1" "$2" | sort -V -C; }
matches() { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

# The root of the first toolkit here that is recent enough, or nothing.
installed_toolkit() {
  [ -z "${FOLIO_CUDA_WHEELS:-}" ] || return 0
  local nvcc version
  for nvcc in ${CUDACXX:+"$CUDACXX"} ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} \
    "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [ -x "$nvcc" ] || continue
    version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    if at_least "$FOLIO_CUDA_MINIMUM" "${version:-0}"; then
      dirname "$(dirname "$(readlink -f "$nvcc")")"
      return
    fi
    say "$nvcc is of CUDA ${version:-unknown}: $FOLIO_CUDA_MINIMUM or newer is needed"
  done
}

# Unpacks one wheel, downloaded unless it is in the cache: all of it or what is under its folders, and the licence.
unpack() {  # where to, requirement, SHA-256, folders
  local into=$1 wheel
  shift
  wheel=$(wheel_of "$1")
  if ! matches "$wheel" "$2"; then
    say "downloading $1"
    python3 -m pip --disable-pip-version-check download -q --no-deps --only-binary :all: --dest "$cache" "$1" >&2 ||
      fail "could not download $1"
    wheel=$(wheel_of "$1")
    if ! matches "$wheel" "$2"; then
      rm -f "$wheel"
      fail "the wheel of $1 has another SHA-256 than $2"
    fi
  fi
  python3 - "$wheel" "$into" "${@:3}" <<'PYTHON'
import sys, zipfile
wheel, into, *folders = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    wanted = tuple(folders or [""])
    names = [n for n in archive.namelist() if n.startswith(wanted) or ".dist-info/licenses/" in n]
    archive.extractall(into, names)
PYTHON
}
wheel_of() {
  local name=${1%%==*}
  find "$cache" -maxdepth 1 -name "${name//-/_}-${1##*==}-*.whl" | head -n 1
}

# Brings the unpacked wheels into the form of an installed toolkit.
arrange() {  # where they were unpacked
  local cuda=$1/nvidia/cu13 library
  [ -d "$cuda/bin" ] || return 0
  chmod +x "$cuda"/bin/* "$cuda"/nvvm/bin/*
  ln -s lib "$cuda/lib64"
  for library in "$cuda"/lib/*.so.[0-9]* "$1"/nvidia/nccl/lib/*.so.[0-9]*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
}

# All wheels of a kind, in one folder; done again only when the list of them changed.
provide() {  # kind
  local into=$dir/$1 list entry
  local -n wheels=FOLIO_WHEELS_$1
  list=$(printf '%s\n' "${wheels[@]}")
  [ "$list" != "$(cat "$into/wheels.txt" 2>/dev/null)" ] || return 0
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    fail "the pinned wheels are for Linux on x86-64: install a CUDA Toolkit, NCCL and CMake here"
  rm -rf "$into" "$into.part"
  mkdir -p "$into.part"
  for entry in "${wheels[@]}"; do
    # shellcheck disable=SC2086
    unpack "$into.part" $entry
  done
  arrange "$into.part"
  [ "$1" != cmake ] || chmod +x "$into.part"/cmake/data/bin/*
  [ "$1" != sanitizer ] || find "$into.part" -maxdepth 4 -path '*/compute-sanitizer/*' -type f -exec chmod +x {} +
  # All files get one date, because ccache tells compilers apart by their dates.
  find "$into.part" -type f -exec touch -d '2025-01-01 00:00 UTC' {} +
  echo "$list" >"$into.part/wheels.txt"
  mv "$into.part" "$into"
  say "unpacked $1 into $into"
}

mkdir -p "$dir" "$cache"
exec 9>"$dir/lock"
flock 9  # one at a time

cuda=$(installed_toolkit)
nccl=
if [ -n "$cuda" ]; then
  say "taking the CUDA Toolkit in $cuda"
  for place in "${NCCL_ROOT:-}" "$cuda" /usr; do
    [ -z "$nccl" ] && [ -e "$place/include/nccl.h" ] && nccl=$place
  done
  [ -n "$nccl" ] || fail "no nccl.h in NCCL_ROOT, $cuda or /usr: install NCCL's development package"
  version=$(awk '$2 ~ /^NCCL_(MAJOR|MINOR)$/ { printf "%s%s", dot, $3; dot = "." }' "$nccl/include/nccl.h")
  at_least 2.19 "$version" || fail "NCCL $version in $nccl is too old: 2.19 is needed (2.27 for symmetric memory," \
    "2.30 for ranks that share a GPU); install a newer one and name it by NCCL_ROOT"
else
  provide toolkit
  cuda=$dir/toolkit/nvidia/cu13 nccl=$dir/toolkit/nvidia/nccl
fi
cuobjdump=$cuda/bin/cuobjdump

# FindCUDAToolkit knows CUDA 13 since CMake 4.
cmake=$(command -v cmake || true)
if [ -z "$cmake" ] || ! at_least 4 "$("$cmake" --version | awk 'NR == 1 { print $3 }')"; then
  provide cmake
  cmake=$dir/cmake/cmake/data/bin/cmake
fi
provide flashinfer

printf '%s=%s\n' CUDA_ROOT "$cuda" CMAKE "$cmake" NCCL_ROOT "$nccl" CUOBJDUMP "$cuobjdump" \
  FLASHINFER_INCLUDE "$dir/flashinfer/flashinfer/data/include" \
  CUTLASS_INCLUDE "$dir/flashinfer/flashinfer/data/cutlass/include"
[ -n "$sanitizer" ] || exit 0
if [ -x "$cuda/compute-sanitizer/compute-sanitizer" ]; then
  sanitizer=$cuda
else
  provide sanitizer
  sanitizer=$dir/sanitizer/nvidia/cu13
fi
echo "SANITIZER=$sanitizer/compute-sanitizer"
