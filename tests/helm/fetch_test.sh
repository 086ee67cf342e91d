#!/usr/bin/env bash
# Runs the script of the init container that downloads a model, against a server of our own: fetch_test.sh
# It must take the right file, keep it, and refuse another one, with each of curl and wget that is here.
set -euo pipefail
[ $# -eq 0 ] || { sed -n '2,3p' "$0" >&2; exit 2; }
script=$(cd "$(dirname "$0")/../../helm/folio/files" && pwd)/fetch-model.sh
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "fetch_test.sh: $*" >&2; exit 1; }

mkdir "$work/served"
head -c 100000 /dev/urandom >"$work/served/model.gguf"
sum=$(sha256sum "$work/served/model.gguf" | cut -d ' ' -f 1)
touch "$work/server.log" # on a busy machine the server is there later than its first reader
python3 -u -m http.server --bind 127.0.0.1 --directory "$work/served" 0 >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
  port=$(sed -n 's/^Serving HTTP on .* port \([0-9]*\) .*/\1/p' "$work/server.log")
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { cat "$work/server.log" >&2; die "the server does not start"; }

fetch() { # SHA256; PATH is a folder with the programs of the script alone
  PATH=$work/bin MODEL_URL=http://127.0.0.1:$port/model.gguf MODEL_SHA256=$1 MODEL_FILE=$work/models/model.gguf \
    "$(command -v sh)" "$script" >"$work/log" 2>&1
}

tried=0
for client in curl wget; do
  command -v "$client" >/dev/null || continue
  tried=$((tried + 1))
  rm -rf "${work:?}/bin" "$work/models"
  mkdir "$work/bin" "$work/models"
  for program in "$client" cut sha256sum rm mv; do ln -s "$(command -v "$program")" "$work/bin/$program"; done
  if fetch "${sum/[0-9]/f}"; then die "$client: another file is not refused"; fi
  grep -q "is expected" "$work/log" || { cat "$work/log" >&2; die "$client: the refusal does not tell the hashes"; }
  [ -z "$(ls "$work/models")" ] || die "$client: a refused file is left behind"
  fetch "$sum" || { cat "$work/log" >&2; die "$client: the right file is refused"; }
  cmp -s "$work/served/model.gguf" "$work/models/model.gguf" || die "$client: the file differs"
  rm "$work/bin/$client"
  fetch "$sum" || { cat "$work/log" >&2; die "a file that is there is downloaded again"; }
done
[ "$tried" -gt 0 ] || die "there is neither curl nor wget here: install one"
echo "a download with $tried clients is checked"
