#!/usr/bin/env bash
# Runs Folio's chart on a real cluster: tests/kubernetes/run.sh [--keep] [--summary=FILE] [PYTEST-OPTIONS...]
#   --keep           leaves the cluster up and prints how to use and end it
#   --summary=FILE   also writes a summary in Markdown
# FOLIO_BIN has the programs (default build/bin), FOLIO_MODEL the reference model (fetched if it is not set). The programs
# of Kubernetes and helm are built the first time, which takes about 20 minutes. Needs root. See cluster.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
say() { printf '[kubernetes] %6d s  %s\n' "$SECONDS" "$*"; }
die() { echo "tests/kubernetes/run.sh: $*" >&2; exit 1; }

keep='' summary='' options=()
for argument in "$@"; do
  case $argument in
    --keep) keep=1 ;;
    --summary=*) summary=$(realpath -m "${argument#*=}") ;;
    -h | --help) sed -n '2,6p' "$0"; exit ;;
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

work=$(mktemp -d)
up=
cleanup() {
  local status=$?
  trap - EXIT
  if [ -n "$up" ] && [ -n "$keep" ]; then
    say "the cluster is left: export KUBECONFIG=$KUBECONFIG PATH=$programs:$helm:\$PATH; tests/kubernetes/cluster.sh down"
  elif [ -n "$up" ]; then
    "$here/cluster.sh" down || status=1
    say "the cluster is down"
  fi
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

up=1
KUBECONFIG=$("$here/cluster.sh" up)
took_cluster=$SECONDS
say "the cluster is up"

# Two versions, for upgrades: the same programs under two tags, and so with other labels.
version=$(sed -nE 's/^project\(folio VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
for tag in "$version" "$version-next"; do
  deploy/images/build.sh --engine=buildah --programs="$bin" --storage="$work/storage" --tag="$tag" \
    --archives="$work/archives/$tag" >"$work/log" || { cat "$work/log" >&2; die "the images do not build"; }
  "$here/cluster.sh" load "$work/archives/$tag"/*.tar
done
rm -rf "$work/storage" "$work/archives"
say "the images are loaded"

export KUBECONFIG FOLIO_MODEL FOLIO_CLUSTER=1 FOLIO_IMAGES_TAG=$version FOLIO_IMAGES_NEXT=$version-next
export FOLIO_CLUSTER_SUMMARY=$summary PATH=$programs:$helm:$PATH
export FOLIO_CLUSTER_SETUP="Before them the cluster came up in $took_cluster s and the images were there after $SECONDS s."
tests=("$here"/test_pods_{install,loss,upgrade,rules}.py)
"$python" -m pytest -q --no-header -p no:cacheprovider --maxfail=1 "${options[@]}" "${tests[@]}"
say "done"
