#!/usr/bin/env bash
# Finds or fetches a Go that is recent enough, for tools that are built from the Go module proxy, and prints its path:
#   deploy/go.sh MINIMUM, such as 1.25.0
# FOLIO_GO names one to take as it is. Debian's Go is too old for most tools, but it can fetch a toolchain, which is a module
# itself, into ${FOLIO_CACHE:-${XDG_CACHE_HOME:-~/.cache}/folio}/go.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
minimum=$1
toolchain=1.26.8
[ -z "${FOLIO_GO:-}" ] || { echo "$FOLIO_GO"; exit; }
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/go
mkdir -p "$cache"

fail() { printf 'go: %s\n' "$*" >&2; exit 1; }
at_least() { printf '%s\n%s\n' "$1" "$2" | sort -V -C; }
# In a folder without go.mod, because that could ask for another toolchain.
version_of() { (cd "$cache" && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) | sed 's/^go//; s/ .*//'; }

exec 9>"$cache/lock"
flock 9  # one at a time
old=
for go in $(type -ap go || true) /usr/local/go/bin/go /usr/lib/go-1.*/bin/go "$cache/$toolchain/bin/go"; do
  [ -x "$go" ] || continue
  if at_least "$minimum" "$(version_of "$go")"; then echo "$go"; exit; fi
  old=$go
done
at_least "$minimum" "$toolchain" || fail "Go $minimum is newer than the toolchain $toolchain that this script fetches"

if [ -z "$old" ]; then
  echo "[go] installing golang-go" >&2
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends golang-go \
    ca-certificates >&2 || fail "apt-get could not install golang-go: run apt-get update and try again"
  old=$(type -p go)
fi
echo "[go] fetching the toolchain $toolchain" >&2
# The proxy's checksum database knows toolchains, so what comes is what was published.
told=$(cd "$cache" && GOFLAGS=-mod=mod "$old" mod download -json \
  "golang.org/toolchain@v0.0.1-go$toolchain.linux-$(dpkg --print-architecture)") ||
  fail "the module proxy has no toolchain $toolchain"
rm -rf "$cache/part"
cp -r "$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)".*/\1/p' <<<"$told")" "$cache/part"
chmod -R u+w "$cache/part"
# Modules have no executable files.
find "$cache/part/bin" "$cache/part/pkg/tool" -type f -exec chmod +x {} +
mv "$cache/part" "$cache/$toolchain"
echo "$cache/$toolchain/bin/go"
