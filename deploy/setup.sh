#!/usr/bin/env bash
# Installs what Folio is built with: deploy/setup.sh [--tests] [--lint] [--fuzz]
# Needs root or sudo only when something is missing. Prints one line per step; details go to a log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/packages.sh
. "$here/packages.sh"

packages=("${FOLIO_BUILD_PACKAGES[@]}")
browser=
for arg in "$@"; do
  case $arg in
    --tests) packages+=("${FOLIO_TEST_PACKAGES[@]}") browser=$FOLIO_BROWSER_PACKAGE ;;
    --lint) packages+=("${FOLIO_LINT_PACKAGES[@]}") ;;
    --fuzz) packages+=("${FOLIO_FUZZ_PACKAGES[@]}") ;;
    *) echo "setup: unknown option $arg (known: --tests, --lint, --fuzz)" >&2; exit 2 ;;
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
refresh() {
  [ -z "$updated" ] || return 0
  say "reading package lists"
  quietly as_root apt-get update -q
  updated=1
}
install() {
  refresh
  say "installing $*"
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

recent_cargo() {
  local name cargo
  for name in "${FOLIO_CARGO_NAMES[@]}"; do
    # All of PATH: an old cargo, or a rustup without a toolchain, must not hide a good one behind it.
    for cargo in "${CARGO_HOME:-$HOME/.cargo}/bin/$name" "$HOME/.cargo/bin/$name" $(type -ap "$name" || true); do
      [ -x "$cargo" ] || continue
      if recent_enough "$("$cargo" --version 2>/dev/null | awk '{print $2}')" "$FOLIO_RUST_MINIMUM"; then return 0; fi
    done
  done
  return 1
}

# The version that the package lists offer, if any.
candidate() { apt-cache policy "$1" | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }
# The first entry of FOLIO_RUST_PACKAGES that can be installed and, for the unnumbered, is recent enough.
rust_packages() {
  local entry package
  for entry in "${FOLIO_RUST_PACKAGES[@]}"; do
    for package in $entry; do
      recent_enough "$(candidate "$package")" "$FOLIO_RUST_MINIMUM" || continue 2
    done
    echo "$entry"
    return
  done
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

if [ -n "$browser" ] && ! installed "$browser"; then
  refresh
  if [ -n "$(candidate "$browser")" ]; then
    install "$browser"
  else
    say "this system has no package $browser, so the tests of the console in a browser are skipped"
  fi
fi

if ! recent_cargo; then
  refresh
  rust=$(rust_packages)
  # shellcheck disable=SC2086
  [ -z "$rust" ] || install $rust
  hash -r
  recent_cargo || {
    echo "setup: no cargo of $FOLIO_RUST_MINIMUM or newer here, and ${rust:-no package known to us} brings one:" \
      "install Rust with rustup" >&2
    exit 1
  }
fi
if ! recent_node; then
  install nodejs npm
  hash -r
  recent_node || {
    echo "setup: no Node.js of $FOLIO_NODE_MINIMUM or newer with npm here: install one, for the console's page" >&2
    exit 1
  }
fi
say "everything needed is installed"
