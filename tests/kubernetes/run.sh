#!/usr/bin/env bash
# Runs Folio's chart on a real cluster: tests/kubernetes/run.sh [--all] [--keep] [--summary=FILE] [PYTEST-OPTIONS...]
#   --all            also the steps of test_pods_values.py, for which CI has no time
#   --keep           leaves the cluster up and prints how to use and end it
#   --summary=FILE   also writes a summary in Markdown
# A cluster that is there already, such as one that was cut off, is ended first. One run at a time: another one ends with 75.
# FOLIO_BIN has the programs (default build/bin), FOLIO_MODEL the reference model (fetched if it is not set). The programs
# of Kubernetes and helm are built the first time, which takes about 20 minutes. Needs root. See cluster.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
say() { printf '[kubernetes] %6d s  %s\n' "$SECONDS" "$*"; }
die() { echo "tests/kubernetes/run.sh: $*" >&2; exit 1; }

all='' keep='' summary='' options=()
for argument in "$@"; do
  case $argument in
    --all) all=1 ;;
    --keep) keep=1 ;;
    --summary=*) summary=$(realpath -m "${argument#*=}") ;;
    -h | --help) sed -n '2,9p' "$0"; exit ;;
    *) options+=("$argument") ;;
  esac
done
[ "$(id -u)" -eq 0 ] || die "a node of Kubernetes needs root: run it as root"
bin=${FOLIO_BIN:-$root/build/bin}
[ -x "$bin/folio-manager" ] || die "there are no programs in $bin: run deploy/build.sh build, or set FOLIO_BIN"

programs=$("$here/binaries.sh")
helm=$("$root/tests/helm/tools.sh")
python=$(tests/python.sh)
FOLIO_MODEL=$(realpath "${FOLIO_MODEL:-$(deploy/fetch_model.sh)}")
say "programs are ready"

cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/kubernetes
# The processes of the cluster must not hold the lock, so they do not get its descriptor.
exec 8>"$cache/run.lock"
flock -n 8 || { echo "tests/kubernetes/run.sh: another run uses the cluster of this machine: wait for its end" >&2; exit 75; }
work=$cache/work
# The directories of sockets that the chart makes on the node for the releases of the tests.
sockets=(/run/folio-pods/folio{,-strict}-folio /run/folio-pods/folio-more-folio-{pair,one})
"$here/cluster.sh" down 8>&-
rm -rf "$work" "${sockets[@]}"
mkdir -p "$work"
up=
cleanup() {
  local status=$?
  trap - EXIT
  if [ -n "$up" ] && [ -n "$keep" ]; then
    say "the cluster is left: export KUBECONFIG=$KUBECONFIG PATH=$programs:$helm:\$PATH; tests/kubernetes/cluster.sh down"
  elif [ -n "$up" ]; then
    if [ "$status" -ne 0 ]; then
      # The steps show the pods of a release. These lines are for what went wrong below them.
      for part in kubelet containerd apiserver; do
        say "the last lines of $part"
        tail -n 8 "$cache/run/$part.log" 2>/dev/null || true
      done >&2
    fi
    "$here/cluster.sh" down 8>&- || status=1
    rm -rf "${sockets[@]}"
    rmdir /run/folio-pods 2>/dev/null || true
    say "the cluster is down"
  fi
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

up=1
KUBECONFIG=$("$here/cluster.sh" up 8>&-)
took_cluster=$SECONDS
say "the cluster is up"

# Two versions, for upgrades: the same programs under two tags, and so with other labels.
version=$(sed -nE 's/^project\(folio VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "failed: $*"; }; }
quietly deploy/images/build.sh --engine=buildah --programs="$bin" --storage="$work/storage" --archives="$work/archives"
builder=(buildah --storage-driver vfs --root "$work/storage/root" --runroot "$work/storage/run")
for image in folio-manager folio-worker folioctl; do
  next=localhost/$image:$version-next container=$("${builder[@]}" from "localhost/$image:$version")
  quietly "${builder[@]}" config --label "org.opencontainers.image.version=$version-next" "$container"
  quietly "${builder[@]}" commit --rm "$container" "$next"
  quietly "${builder[@]}" push "$next" "docker-archive:$work/archives/$image-next.tar:$next"
done
"$here/cluster.sh" load "$work"/archives/*.tar
rm -rf "$work/storage" "$work/archives"
say "the images are loaded"

export KUBECONFIG FOLIO_MODEL FOLIO_CLUSTER=1 FOLIO_IMAGES_TAG=$version FOLIO_IMAGES_NEXT=$version-next
FOLIO_CLUSTER_VERSION=$("$bin/folio-manager" --version)
export FOLIO_CLUSTER_VERSION FOLIO_CLUSTER_SUMMARY=$summary PATH=$programs:$helm:$PATH
export FOLIO_CLUSTER_SETUP="Before them the cluster came up in $took_cluster s and the images were there after $SECONDS s."
tests=("$here"/test_pods_{install,loss,upgrade,rules}.py)
[ -z "$all" ] || tests+=("$here/test_pods_values.py")
"$python" -m pytest -q --no-header -p no:cacheprovider --maxfail=1 -o faulthandler_timeout=240 "${options[@]}" "${tests[@]}"
say "done"
