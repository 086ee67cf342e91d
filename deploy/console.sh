#!/usr/bin/env bash
# Builds the console's page: deploy/console.sh OUT
# OUT gets index.html and its assets. Node.js fetches what the page is made of (services/console/package-lock.json) once. A page that was
# built from the same sources before is taken from FOLIO_CACHE (default ~/.cache/folio), so several builds share it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?usage: deploy/console.sh OUT}
# shellcheck source=deploy/packages.sh
. "$root/deploy/packages.sh"
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/console
source=$root/services/console

version=$(node --version 2>/dev/null || echo none)
recent_node || {
  echo "console: the console's page needs Node.js $FOLIO_NODE_MINIMUM or newer with npm, and here is $version:" \
    "run deploy/setup.sh, or configure with -DFOLIO_CONSOLE=OFF" >&2
  exit 1
}

inputs() { find "$source" -name node_modules -prune -o -name dist -prune -o -type f ! -name '*.md' -print | LC_ALL=C sort; }
key=$( (inputs | while read -r file; do echo "${file#"$source"}"; cat "$file"; done; echo "$version"; cat "$root/deploy/console.sh") | sha256sum | cut -c1-16)
page=$cache/$key
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -f "$page/index.html" ]; then
  work=$(mktemp -d "$cache/build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  log=$work.log
  inputs | while read -r file; do install -D -m 644 "$file" "$work${file#"$source"}"; done
  (cd "$work" && npm ci --no-audit --no-fund --cache "$cache/npm" && npm run build -- --outDir "$work/page") >"$log" 2>&1 || {
    tail -n 60 "$log" >&2
    echo "console: the page could not be built" >&2
    rm -f "$log"
    exit 1
  }
  rm -f "$log"
  # Packages with the page carry the licences of its parts.
  mkdir "$work/page/licences"
  for part in $(cd "$work" && node -p 'Object.keys(require("./package.json").dependencies).join(" ")'); do
    cp "$work/node_modules/$part"/LICENSE* "$work/page/licences/$part.txt"
  done
  # Pages of earlier sources are of no use any more.
  find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name npm ! -path "$work" -mtime +30 -exec rm -rf {} +
  mv "$work/page" "$page"
fi
rm -rf "$out"
cp -R "$page" "$out"
