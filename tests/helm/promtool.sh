#!/usr/bin/env bash
# Prints the folder that has promtool and prometheus, from the package `prometheus` of the distribution: promtool.sh
# The package is unpacked into the cache and not installed, so no service starts. A later call only prints the folder.
# FOLIO_CACHE chooses the cache (default ${XDG_CACHE_HOME:-~/.cache}/folio).
set -euo pipefail
[ $# -eq 0 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/prometheus
folder=$cache/$(. /etc/os-release && echo "$ID-$VERSION_ID")
if [ -x "$folder/usr/bin/promtool" ]; then echo "$folder/usr/bin"; exit; fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # one download at a time
if [ -x "$folder/usr/bin/promtool" ]; then echo "$folder/usr/bin"; exit; fi
work=$(mktemp -d "$cache/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
# A machine that has never asked for the lists of packages asks once.
(cd "$work" && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; }) \
  >"$work/log" 2>&1 || { cat "$work/log" >&2; echo "promtool.sh: apt-get did not give the package prometheus" >&2; exit 1; }
dpkg -x "$work"/prometheus_*.deb "$work/files"
rm -rf "$folder"
mv "$work/files" "$folder"
echo "$folder/usr/bin"
