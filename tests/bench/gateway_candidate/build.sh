#!/bin/sh
# Builds the gateway in Go: tests/bench/gateway_candidate/build.sh FOLDER. The program is then FOLDER/candidate.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
[ $# -eq 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
to=$(cd "$1" && pwd)
go=$("$root/deploy/go.sh" 1.26.0)
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOBIN="$to/bin"
cp "$here/main.go" "$here/go.mod" "$here/go.sum" "$to"
cd "$to"
"$go" install google.golang.org/protobuf/cmd/protoc-gen-go
"$go" install google.golang.org/grpc/cmd/protoc-gen-go-grpc
mkdir -p pb
maps=
for file in types inference; do
  maps="$maps --go_opt=Mfolio/v1/$file.proto=folio.invalid/candidate/pb --go-grpc_opt=Mfolio/v1/$file.proto=folio.invalid/candidate/pb"
done
# shellcheck disable=SC2086
PATH="$to/bin:$PATH" protoc -I "$root/proto" --go_out=pb --go-grpc_out=pb --go_opt=module=folio.invalid/candidate/pb \
  --go-grpc_opt=module=folio.invalid/candidate/pb $maps folio/v1/types.proto folio/v1/inference.proto
"$go" build -o candidate .
