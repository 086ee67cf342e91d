#!/usr/bin/env bash
# Builds what tests/gpu/run.sh runs and packs it for a machine with a GPU and neither network nor our packages:
#   tests/gpu/bundle.sh OUT [--arch ARCHS] [--model] [--no_nccl] [--build DIR]
# Makes the folder OUT and OUT.tar.xz, which holds it. There: tar xJf OUT.tar.xz && OUT/run.sh
#   --arch ARCHS  GPU architectures as CMake writes them (default 90a-real: Hopper)
#   --model       put the reference model into it as well (94 MiB; without it two sections are skipped, unless
#                 run.sh is given --model there)
#   --no_nccl     without NCCL (some 32 MiB): run.sh takes it where the machine's is older than 2.30, with which
#                 ranks cannot share a GPU
#   --build DIR   build folder (default build-gpu-bundle)
# On the target: glibc 2.36 and libstdc++ of GCC 12 or newer, python3, the driver, and CUDA's cuBLAS of the major
# version that is built with here; run.sh finds it in /usr/local/cuda*, in LD_LIBRARY_PATH and in Python's wheels,
# and says what is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=tests/gpu/programs.sh
. "$here/programs.sh"

out="" arch=90a-real model="" nccl=1 build=$root/build-gpu-bundle
usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
  case $1 in
    --arch | --build)
      [ $# -ge 2 ] || { echo "bundle.sh: $1 wants a value" >&2; exit 2; }
      if [ "$1" = --arch ]; then arch=$2; else build=$2; fi
      shift
      ;;
    --model) model=1 ;;
    --no_nccl) nccl="" ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "bundle.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    *) out=$1 ;;
  esac
  shift
done
out=${out%/}
[ -n "$out" ] || { usage >&2; exit 2; }
if [ -e "$out" ] && [ ! -f "$out/bundle.txt" ] && [ -n "$(ls -A "$out")" ]; then
  echo "bundle.sh: $out is there and is no bundle: name another folder" >&2
  exit 2
fi

"$root/deploy/setup.sh" --tests
"$root/deploy/build.sh" "$build" -DCMAKE_BUILD_TYPE=Release -DFOLIO_TESTS=ON -DFOLIO_CUDA=ON \
  -DFOLIO_CUDA_ARCHS="$arch" -- "${FOLIO_GPU_PROGRAMS[@]}"

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/oracle"
for program in "${FOLIO_GPU_PROGRAMS[@]}"; do
  strip -o "$out/bin/$program" "$build/bin/$program"
done
# Not glibc, nor what comes with the compiler, the driver or the CUDA Toolkit: those are the target's.
theirs='^(ld-linux|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt|nccl|nvidia-ml)\.so)'
for program in "${FOLIO_GPU_PROGRAMS[@]}"; do
  ldd "$build/bin/$program"
done | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
  [[ $name =~ $theirs ]] || strip -o "$out/lib/$name" "$path"
done
cp "$here/run.sh" "$out"
mkdir -p "$out/suite"
cp "$here"/suite/*.py "$out/suite"
cp "$root/tests/oracle/generation.json" "$out/oracle"
[ -z "$model" ] || cp "$("$root/deploy/fetch_model.sh")" "$out/model.gguf"
sanitizer=$("$root/deploy/cuda_toolkit.sh" --sanitizer | sed -n 's/^SANITIZER=//p')
mkdir "$out/compute-sanitizer"
find "$sanitizer" -maxdepth 1 -type f -exec cp -t "$out/compute-sanitizer" {} +
cached() { sed -n "s/^$1:[^=]*=//p" "$build/CMakeCache.txt"; }
if [ -n "$nccl" ]; then
  mkdir "$out/nccl"
  from=$(cached FOLIO_NCCL_ROOT)
  library=$(find "$from" -maxdepth 3 -name libnccl.so.2 | head -n 1)
  [ -n "$library" ] || { echo "bundle.sh: there is no libnccl.so.2 in $from; --no_nccl makes a bundle without it" >&2; exit 1; }
  # The numbers of the architectures: 90 100 for 90a-real;100.
  mapfile -t numbers < <(tr ';' '\n' <<<"$arch" | sed 's/[^0-9].*//')
  python3 "$here/prune_fatbin.py" "$library" "$out/nccl/whole" "${numbers[@]}"
  # Its symbols for a debugger take more than its code.
  strip -o "$out/nccl/libnccl.so.2" "$out/nccl/whole"
  rm "$out/nccl/whole"
  for licence in "$from"/../../*nccl*.dist-info/licenses/*; do [ ! -f "$licence" ] || cp "$licence" "$out/nccl"; done
fi
nvcc=$(cached CMAKE_CUDA_COMPILER)
{
  echo "commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
  echo "architectures $arch"
  echo "CUDA $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
} >"$out/bundle.txt"
# The programs have much in common: a window that holds them all.
tar -C "$(dirname "$out")" --sort=name --owner=0 --group=0 -c "$(basename "$out")" | xz -9 >"$out.tar.xz"
packed=$(du -sm "$out.tar.xz" | cut -f 1)
echo "bundle.sh: $(du -sm "$out" | cut -f 1) MiB in $out, $packed MiB in $out.tar.xz"
# What carries files to the machine may have a limit.
[ "$packed" -lt 64 ] || echo "bundle.sh: this is 64 MiB or more; --no_nccl and a single architecture make it smaller" >&2
