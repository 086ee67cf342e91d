#!/usr/bin/env bash
# Checks that the protocol still works with clients of the last release: tests/protocol/breaking.sh [RELEASE]
# RELEASE is a folder of proto/releases, by default the newest. `buf breaking` compares, by the rules of proto/buf.yaml.
# Changes that are meant to break are listed, each with its reason, in tests/protocol/intended.txt; the check fails for any
# other one, and for a listed one that is not there.
#
# buf is built from the Go module proxy once (about 600 packages) and kept in
# ${FOLIO_CACHE:-${XDG_CACHE_HOME:-~/.cache}/folio}/buf.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
buf_version=v1.75.0 buf_go=1.26.7
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
case ${1:-} in -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;; esac

say() { printf '[protocol] %s\n' "$*"; }
fail() { printf 'breaking: %s\n' "$*" >&2; exit 1; }

cd "$root/proto"
release=${1:-$(find releases -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort -V | tail -n 1)}
[ -d "releases/$release/folio/v1" ] || fail "there is no proto/releases/$release"

buf=$cache/buf/$buf_version/buf
if [ ! -x "$buf" ]; then
  go=$("$root/deploy/go.sh" "$buf_go")
  say "building buf $buf_version with $("$go" env GOVERSION)"
  mkdir -p "$(dirname "$buf")"
  (cd "$(dirname "$buf")" && env GOBIN="$PWD" GOFLAGS=-mod=mod CGO_ENABLED=0 GOTOOLCHAIN=local \
    "$go" install -trimpath "github.com/bufbuild/buf/cmd/buf@$buf_version" 2>build.log) ||
    { tail -n 20 "$(dirname "$buf")/build.log" >&2; fail "buf could not be built"; }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Outside of the module, because buf takes no part of a module as another one.
cp -r "releases/$release" "$work/release"
# buf ends with 100 when it found changes, and with others when it could not compare.
rc=0
BUF_CACHE_DIR=$work/cache "$buf" breaking --error-format=text --against "$work/release" >"$work/said" 2>"$work/errors" || rc=$?
[ "$rc" -eq 0 ] || [ "$rc" -eq 100 ] || { cat "$work/said" "$work/errors" >&2; fail "buf could not compare"; }

# "path:line:column:what" without the place in the line, which moves.
sed -E 's/^([^:]+):[0-9]+:[0-9]+:/\1: /' "$work/said" | sort -u >"$work/found"
# "path: what  # reason"
intended=$root/tests/protocol/intended.txt
if grep -nEv '^(#.*)?$' "$intended" | grep -vE '  # .{10}' >"$work/unreasoned"; then
  cat "$work/unreasoned" >&2
  fail "tests/protocol/intended.txt has entries without a reason"
fi
sed -E '/^(#.*)?$/d; s/  # .*//' "$intended" | sort -u >"$work/intended"

comm -23 "$work/found" "$work/intended" >"$work/unknown"
comm -13 "$work/found" "$work/intended" >"$work/stale"
if [ -s "$work/unknown" ]; then
  cat "$work/unknown" >&2
  fail "these changes break clients of $release: take them back, or list them with a reason in tests/protocol/intended.txt"
fi
if [ -s "$work/stale" ]; then
  cat "$work/stale" >&2
  fail "tests/protocol/intended.txt lists changes from $release that are not there: delete these lines"
fi
say "the protocol is compatible with $release ($(wc -l <"$work/intended") intended changes)"
