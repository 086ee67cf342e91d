#!/usr/bin/env bash
# Builds Kubernetes' programs and CoreDNS from the Go module proxy and prints their folder. A later call only prints it.
# With --cached it builds nothing, and fails if they have not been built.
# About seven minutes on two cores. FOLIO_CACHE chooses the cache (default ${XDG_CACHE_HOME:-~/.cache}/folio), KUBE_VERSION
# the release of Kubernetes, and FOLIO_GO a Go of your own. GOMAXPROCS=1 leaves a core to others.
set -euo pipefail
case $# in 0) ;; *) [ "$*" = --cached ] || { sed -n '2,5p' "$0" >&2; exit 2; } ;; esac
here=$(cd "$(dirname "$0")" && pwd)
kube=${KUBE_VERSION:-v1.34.4} coredns=v1.13.1
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/kubernetes
bin=$cache/bin-$kube
programs=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl)

say() { printf '[kubernetes] %s\n' "$*" >&2; }
die() { echo "binaries.sh: $*" >&2; exit 1; }
complete() {
  local name
  for name in "${programs[@]}" coredns; do [ -x "$bin/$name" ] || return 1; done
}
if complete; then echo "$bin"; exit; fi
[ $# -eq 0 ] || die "the programs of Kubernetes $kube have not been built"

mkdir -p "$bin"
exec 9>"$cache/build.lock"
flock 9 # one build at a time
if complete; then echo "$bin"; exit; fi
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
go=$("$here/../../deploy/go.sh" 1.24.0)
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; die "failed: $*"; }; }

build_kubernetes() {
  local at names name v=k8s.io/component-base/version minor=${kube#v1.} paths=()
  at=$(cd "$work" && "$go" mod download -json "k8s.io/kubernetes@$kube" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)".*/\1/p')
  [ -n "$at" ] || die "the Go module proxy has no Kubernetes $kube"
  cp -r "$at" "$work/kubernetes"
  chmod -R u+w "$work/kubernetes"
  cd "$work/kubernetes"
  rm -rf vendor go.work go.work.sum
  # The parts under staging/ are replaced by folders in go.mod. Each of them is also released as a module, as v0.MINOR.PATCH.
  names=$(sed -nE 's|^\s*(k8s\.io/\S+) => \./staging/.*|\1|p' go.mod)
  sed -i -E '\|^\s*k8s\.io/\S+ => \./staging/|d' go.mod
  for name in $names; do sed -i -E "s#\b$name v0\.0\.0( |\$)#$name v0.${kube#v1.}\1#" go.mod; done
  for name in "${programs[@]}"; do paths+=("./cmd/$name"); done
  quietly "$go" build -trimpath -o "$work/bin/" \
    -ldflags "-s -w -X $v.gitVersion=$kube -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*}" "${paths[@]}"
}

# CoreDNS with the plugins that this cluster needs. The others bring along the libraries of several clouds.
build_coredns() {
  mkdir "$work/coredns"
  cd "$work/coredns"
  {
    echo 'package main'
    echo 'import "github.com/coredns/coredns/coremain"'
    for name in bind cache errors kubernetes; do echo "import _ \"github.com/coredns/coredns/plugin/$name\""; done
    echo 'func main() { coremain.Run() }'
  } >main.go
  quietly "$go" mod init folio/coredns
  quietly "$go" get "github.com/coredns/coredns@$coredns"
  quietly "$go" build -trimpath -ldflags "-s -w" -o "$work/bin/coredns" .
}

mkdir "$work/bin"
began=$SECONDS
say "building Kubernetes $kube"
(build_kubernetes)
say "building CoreDNS $coredns"
(build_coredns)
mv "$work"/bin/* "$bin"
complete || die "a program is missing in $bin"
say "both took $((SECONDS - began)) s"
echo "$bin"
