#!/usr/bin/env bash
# Installs what Folio is built with: deploy/setup.sh [--tests] [--lint]
# Needs root or sudo only when something is missing. Prints one line per step; details go to a log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/packages.sh
. "$here/packages.sh"

packages=("${FOLIO_BUILD_PACKAGES[@]}")
for arg in "$@"; do
  case $arg in
    --tests) packages+=("${FOLIO_TEST_PACKAGES[@]}") ;;
    --lint) packages+=("${FOLIO_LINT_PACKAGES[@]}") ;;
    *) echo "setup: unknown option $arg (known: --tests, --lint)" >&2; exit 2 ;;
  esac
done

say() { printf '[setup] %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    echo "setup: '$*' needs root: run as root or install sudo" >&2; exit 1
  fi
}

installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! "$@" >"$log" 2>&1; then cat "$log" >&2; echo "setup: failed: $*" >&2; exit 1; fi
}

updated=
install() {
  if [ -z "$updated" ]; then
    say "reading package lists"
    quietly as_root apt-get update -q
    updated=1
  fi
  say "installing $*"
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

recent_cargo() {
  local version
  command -v cargo >/dev/null || return 1
  version=$(cargo --version 2>/dev/null | awk '{print $2}')
  [ -n "$version" ] && printf '%s\n%s\n' "$FOLIO_RUST_MINIMUM" "$version" | sort -V -C
}

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; install the packages of deploy/packages.sh by hand" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"

if ! recent_cargo; then
  install "$FOLIO_RUST_PACKAGE"
  hash -r
  recent_cargo || {
    echo "setup: no cargo of $FOLIO_RUST_MINIMUM or newer, and $FOLIO_RUST_PACKAGE did not bring one" >&2
    exit 1
  }
fi
say "everything needed is installed"
