#!/usr/bin/env bash
# Builds the programs of tools.txt and our own podsecurity from the Go module proxy, makes the schemas of the kinds that
# the chart uses, and prints the folder that has it all: PROGRAMS, and schemas/. A later call only prints it.
# The first time takes minutes, and each line tells how many seconds a program took. FOLIO_CACHE chooses the cache
# (default ${XDG_CACHE_HOME:-~/.cache}/folio), and FOLIO_GO a Go of your own. GOMAXPROCS=1 leaves a core to others.
set -euo pipefail
[ $# -eq 0 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/helm
# Another list, program or script makes another folder, so that no stale tool is taken. The programs in it are links.
key=$(cat "$here"/tools.txt "$here"/schemas.py "$here"/podsecurity/{main.go,go.mod,go.sum} | sha256sum | cut -c1-12)
bin=$cache/tools-$key
if [ -e "$bin/complete" ]; then echo "$bin"; exit; fi

say() { printf '[helm tools] %s\n' "$*" >&2; }
die() { echo "tools.sh: $*" >&2; exit 1; }

mkdir -p "$bin"
exec 9>"$cache/lock"
flock 9 # one build at a time
if [ -e "$bin/complete" ]; then echo "$bin"; exit; fi
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
go=$("$here/../../deploy/go.sh" 1.26.0)
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0

# Prints the folder of a module, whose hash must be the one that is pinned: PROGRAM MODULE VERSION SUM
module() {
  (cd "$work" && "$go" mod download -json "$2@$3") >"$work/module.json" ||
    { cat "$work/module.json" >&2; die "$1: the Go module proxy did not give $2 $3"; }
  local sum at
  sum=$(sed -n 's/^[[:space:]]*"Sum": "\(.*\)".*/\1/p' "$work/module.json")
  at=$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)".*/\1/p' "$work/module.json")
  [ "$sum" = "$4" ] || die "$1: $2 $3 has the sum $sum and tools.txt says $4"
  echo "$at"
}

# Builds one program in a copy of its module, with exactly the dependencies of the module's go.sum.
build() { # PROGRAM PACKAGE MODULE VERSION SUM
  local began=$SECONDS at made=$cache/programs/$1-$4
  ln -sf "$made" "$bin/$1"
  [ ! -x "$made" ] || return 0
  at=$(module "$1" "$3" "$4" "$5")
  cp -r "$at" "$work/source"
  chmod -R u+w "$work/source"
  (cd "$work/source" && GOFLAGS=-mod=readonly "$go" build -trimpath -o "$work/$1" \
    -ldflags "-s -w -X $3/internal/version.version=$4 -X main.version=${4#v}" "$2") >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "$1 does not build"; }
  rm -rf "$work/source"
  mkdir -p "$cache/programs"
  mv "$work/$1" "$made"
  say "$1 $4 took $((SECONDS - began)) s"
}

make_schemas() { # PROGRAM PACKAGE MODULE VERSION SUM
  local began=$SECONDS at
  at=$(module "$1" "$3" "$4" "$5")
  rm -rf "$bin/schemas"
  python3 "$here/schemas.py" "$at/api/openapi-spec/swagger.json" "$work/schemas"
  mv "$work/schemas" "$bin/schemas"
  say "schemas of Kubernetes $4 took $((SECONDS - began)) s"
}

while read -r -a row; do
  case ${row[0]} in schemas) make_schemas "${row[@]}" ;; *) build "${row[@]}" ;; esac
done < <(grep -v '^#' "$here/tools.txt")

began=$SECONDS
(cd "$here/podsecurity" && GOFLAGS=-mod=readonly "$go" build -trimpath -buildvcs=false -ldflags "-s -w" \
  -o "$bin/podsecurity" .) >"$work/log" 2>&1 || { cat "$work/log" >&2; die "podsecurity does not build"; }
say "podsecurity took $((SECONDS - began)) s"
touch "$bin/complete"
# The folders of older versions of the list are of no more use.
find "$cache" -mindepth 1 -maxdepth 1 -name 'tools-*' ! -name "tools-$key" -exec rm -rf {} +
echo "$bin"
