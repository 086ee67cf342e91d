#!/usr/bin/env bash
# Makes Debian packages of what a Release build made: deploy/package.sh [--version=VERSION] BUILD [OUT]
# They are for the distribution of this machine. OUT (default BUILD/packages) gets folio-manager, folio-worker, folio-gateway,
# folioctl and libfolio-client-dev or, when BUILD was configured with -DFOLIO_CUDA=ON, folio-worker-cuda. Each has a bill of materials in
# its documents, and a part whose licence deploy/sbom/licences.txt does not allow stops the packaging.
# --version gives the packages another version than the build's, for tests of upgrades.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
version=
case ${1:-} in --version=*) version=${1#--version=}; shift ;; esac
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,/^set /{/^set /d;s/^# //;p}' "$0" >&2
  exit 2
fi
say() { printf '[package] %s\n' "$*"; }
fail() { printf 'package: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}

build=$(realpath "$1")
[ -f "$build/CPackConfig.cmake" ] || fail "$build is not configured: run deploy/build.sh $1 -DCMAKE_BUILD_TYPE=Release"
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
[ "$(value CMAKE_BUILD_TYPE)" = Release ] || fail "$build is not a Release build"
out=$(realpath -m "${2:-$build/packages}")
[ -n "$version" ] || version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")/\1/p' "$build/CPackConfig.cmake")

packages=(folio-manager=bin/folio-manager folio-worker=bin/folio-worker folio-gateway=bin/folio-gateway folioctl=bin/folioctl
  libfolio-client-dev=services/client/libfolio_client.a)
case $(value FOLIO_CUDA) in ON | 1 | TRUE) packages=(folio-worker-cuda=bin/folio-worker) ;; esac
missing=()
for package in "${packages[@]}"; do
  [ -e "$build/${package#*=}" ] || missing+=("${package#*=}")
done
[ ${#missing[@]} -eq 0 ] || fail "$build lacks ${missing[*]}: build first"

for tool in dpkg-shlibdeps:dpkg-dev strip:binutils; do
  command -v "${tool%:*}" >/dev/null && continue
  say "installing ${tool#*:}"
  as_root apt-get install -q -y --no-install-recommends "${tool#*:}" >/dev/null
done

# The date of the commit, so that the same build gives the same packages.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)
fi
export SOURCE_DATE_EPOCH

say "bills of materials"
python=$("$root/deploy/python_env.sh" "$cache/sbom-venv" "$root/deploy/sbom/requirements.txt")
rm -rf "$out/documents"
"$python" "$root/deploy/sbom/sbom.py" "$build" "$out/documents" "$version" "${packages[@]}"

say "packing version $version"
log=$out/cpack.log
# The scripts and units are made while CMake configures, so it does so once more. The build's own CMake packs.
{ "$(value CMAKE_COMMAND)" "$build" &&
  (cd "$build" && "$(value CMAKE_CPACK_COMMAND)" --config CPackConfig.cmake -B "$out" -D CPACK_PACKAGE_VERSION="$version")
} >"$log" 2>&1 || {
  cat "$log" >&2
  fail "CPack failed"
}
rm -rf "$out/_CPack_Packages" "$out/documents"
sed -n 's/^CPack: - package: \(.*\) generated\.$/\1/p' "$log"
rm -f "$log"
