#!/usr/bin/env bash
# Folio in one command: installs, builds, fetches the reference model, starts a manager and a worker on
# Unix sockets in a temporary directory, and serves one long prompt under three policies at once. A gateway
# on a free port of the loopback address then answers a question over HTTP.
#   deploy/demo.sh [--keep] [--tokens N] [--budget N]
# --keep leaves the processes up and prints what to try. Ctrl-C at any point leaves nothing behind.
# FOLIO_BUILD chooses the build folder (default build/), FOLIO_CACHE where the model lives.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
keep= tokens=4000 budget=1024

usage() {
  cat <<'EOF'
usage: deploy/demo.sh [--keep] [--tokens N] [--budget N]
  --keep      leave the daemons running afterwards and print commands to try
  --tokens N  approximate length of the prompt (default 4000, at most 8000)
  --budget N  tokens per layer that the evicting policies may keep (default 1024, a multiple of 16)
EOF
}
number() { case $2 in '' | *[!0-9]*) echo "demo: $1 wants a number, not '$2'" >&2; exit 2 ;; esac; }
while [ $# -gt 0 ]; do
  case $1 in
    --keep) keep=1 ;;
    --tokens) number --tokens "${2-}"; tokens=$2; shift ;;
    --budget) number --budget "${2-}"; budget=$2; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "demo: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
if [ "$tokens" -lt 200 ] || [ "$tokens" -gt 8000 ]; then
  echo "demo: --tokens must be in 200..8000 (the model's context is 8192)" >&2
  exit 2
fi

say() { printf '[demo] %s\n' "$*"; }
dir=

stop_all() {
  local pid pids
  # As the shell knows them: no signal comes between the start of a process and its entry there.
  mapfile -t pids <<<"$(jobs -p)"
  # The last one first: the gateway serves the worker, which closes its sequences while the manager is there
  # to take the pages back.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    pid=${pids[i]}
    [ -n "$pid" ] || continue
    kill -TERM "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
cleanup() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP  # a second Ctrl-C does not end the clean-up
  stop_all
  [ -z "$dir" ] || rm -rf "$dir"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$root/deploy/setup.sh"
model=$("$root/deploy/fetch_model.sh")
say "building (the first time takes some minutes)"
build=${FOLIO_BUILD:-$root/build}
options=(-DCMAKE_BUILD_TYPE=Release)
# Without what only the tests need, unless they were built here before.
grep -qs '^FOLIO_TESTS:BOOL=ON' "$build/CMakeCache.txt" || options+=(-DFOLIO_TESTS=OFF)
"$root/deploy/build.sh" "$build" "${options[@]}" -- folio-manager folio-worker folio-gateway folioctl
bin=$build/bin

# Not to be interrupted between making it and saying its name.
dir=$(trap '' INT TERM HUP; mktemp -d "${TMPDIR:-/tmp}/folio-demo.XXXXXX")
manager=unix:$dir/manager.sock worker=unix:$dir/worker.sock

# In a process group of its own, so that Ctrl-C reaches only this script, which then stops it in order.
start() {
  local name=$1
  shift
  setsid "$bin/$name" "$@" >"$dir/$name.log" 2>&1 &
}
serves() { "$bin/folioctl" health --address "$1" >/dev/null 2>&1; }
port_of() { sed -n 's/.* listening address=127\.0\.0\.1://p' "$dir/$1.log"; }
listens() { [ -n "$(port_of "$1")" ]; }
await() {  # name, pid, what must become true
  for _ in $(seq 600); do
    if "${@:3}"; then return; fi
    if ! kill -0 "$2" 2>/dev/null; then
      cat "$dir/$1.log" >&2
      echo "demo: $1 ended before it served; its log is above" >&2
      exit 1
    fi
    sleep 0.1
  done
  cat "$dir/$1.log" >&2
  echo "demo: $1 did not start serving within a minute; its log is above" >&2
  exit 1
}

say "starting folio-manager"
start folio-manager --listen="$manager" --pool_bytes=1GiB
manager_pid=$!
await folio-manager "$manager_pid" serves "$manager"
say "starting folio-worker (loading $(basename "$model"))"
start folio-worker --listen="$worker" --manager="$manager" --model="$model"
worker_pid=$!
await folio-worker "$worker_pid" serves "$worker"
say "starting folio-gateway"
start folio-gateway --listen=127.0.0.1:0 --worker="$worker" --manager="$manager"
gateway_pid=$!
await folio-gateway "$gateway_pid" listens folio-gateway
console=http://127.0.0.1:$(port_of folio-gateway)/console/
url=http://127.0.0.1:$(port_of folio-gateway)/v1

# One number hidden at two fifths of a repeated filler; 24 tokens a round.
prompt=$dir/prompt.txt
awk -v rounds=$((tokens / 24 - 4)) 'BEGIN {
  printf "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
  printf "<|im_start|>user\nA special magic number is hidden in the text below. Memorize it, I will quiz you about it afterwards.\n"
  for (i = 0; i < rounds; i++) {
    printf "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
    if (i == int(rounds * 0.4)) printf "The special magic number for kelp is: 19494. "
  }
  printf "\nWhat is the special magic number for kelp mentioned in the text?<|im_end|>\n"
  printf "<|im_start|>assistant\nThe special magic number for kelp mentioned in the text is"
}' >"$prompt"

say "one prompt, three policies, at the same time"
"$bin/folioctl" compare --address "$worker" --file "$prompt" --expect 19494 --max_tokens 24 \
  --run full --run "paged_eviction:$budget" --run "streaming_llm:$budget"

say "a question over HTTP, as any client of OpenAI's API asks it"
python3 - "$url" <<'EOF'
import json, signal, sys, urllib.request
signal.signal(signal.SIGINT, signal.SIG_DFL)
question = "What is the capital of France?"
body = {"messages": [{"role": "user", "content": question}], "max_tokens": 24, "temperature": 0}
asking = urllib.request.Request(sys.argv[1] + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
# The loopback address needs no proxy, whatever the machine has.
answer = json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asking, timeout=120))
print(f"{question} {answer['choices'][0]['message']['content']}")
EOF

if [ -n "$keep" ]; then
  cat <<EOF

Manager (pid $manager_pid), worker (pid $worker_pid) and gateway (pid $gateway_pid, $url) stay up. The console shows them:
  $console
Try:
  $bin/folioctl pools --address $manager
  $bin/folioctl model --address $worker
  $bin/folioctl chat --address $worker --policy paged_eviction --budget 512
  $bin/folioctl generate --address $worker --chat "Why is the sea salty?" --stats
  $bin/folioctl sequences --address $manager
  curl -sN $url/completions -H 'Content-Type: application/json' -d '{"prompt": "Once upon a time", "max_tokens": 32, "stream": true}'
Logs are in $dir. To stop and clean up:
  kill $gateway_pid $worker_pid $manager_pid; rm -rf $dir
EOF
  disown -a
  dir=
fi
