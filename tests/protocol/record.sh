#!/usr/bin/env bash
# Records the protocol of a release for breaking.sh: tests/protocol/record.sh VERSION [COMMIT]
# It writes proto/releases/VERSION from COMMIT (default HEAD), without comments, and empties the list of intended changes.
set -euo pipefail
case $# in 1 | 2) ;; *) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;; esac
cd "$(dirname "$0")/../.."
version=$1 commit=${2:-HEAD}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "record: $version is not a version such as 0.2.0" >&2; exit 2; }
[ ! -e "proto/releases/$version" ] || { echo "record: proto/releases/$version exists, and a release does not change" >&2; exit 1; }
mapfile -t files < <(git ls-tree -r --name-only "$commit" proto/folio)
[ ${#files[@]} -gt 0 ] || { echo "record: $commit has no proto/folio" >&2; exit 1; }
for file in "${files[@]}"; do
  target=proto/releases/$version/${file#proto/}
  mkdir -p "$(dirname "$target")"
  git show "$commit:$file" | sed -E 's,[[:space:]]*//.*$,,' | cat -s >"$target"
done
sed -i '/^#/!d' tests/protocol/intended.txt
echo "[protocol] recorded ${#files[@]} files in proto/releases/$version"
