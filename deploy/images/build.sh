#!/usr/bin/env bash
# Builds Folio's images: deploy/images/build.sh [OPTIONS] [IMAGE...]
# See --help. One line per step; details go to a log that is shown when a step fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
engine='' base=registry run_base=scratch programs='' cuda_programs='' archives='' tag='' storage='' images=()

usage() {
  cat <<'USAGE'
usage: deploy/images/build.sh [OPTIONS] [IMAGE...]
IMAGE is folio-manager, folio-worker, folio-gateway, folioctl (the default is these four) or folio-worker-cuda.
  --engine=NAME         docker, podman or buildah; the first of them that works here
  --base=registry       compile in debian:12 from a registry (the default)
  --base=mmdebstrap     compile in a base made of Debian's packages, where no registry is at hand; buildah, as root
  --base=NAME           compile in that image
  --run-base=NAME       put the programs on that image; scratch by default, with which an image has no shell
  --programs=DIR        compile nothing: take the programs in DIR, such as build/bin
  --cuda-programs=DIR   the same for folio-worker-cuda, such as build-cuda/bin
  --tag=TAG             tag and version label; the version in CMakeLists.txt by default
  --archives=DIR        also write each image to DIR/IMAGE.tar, to load elsewhere
  --storage=DIR         buildah's storage; its own place by default
The images are localhost/IMAGE:TAG.
USAGE
}
die() { echo "build.sh: $*" >&2; exit 1; }
for argument in "$@"; do
  value=${argument#*=}
  case $argument in
    --engine=*) engine=$value ;;
    --base=*) base=$value ;;
    --run-base=*) run_base=$value ;;
    --programs=*) programs=$(realpath "$value") || die "there is no folder $value" ;;
    --cuda-programs=*) cuda_programs=$(realpath "$value") || die "there is no folder $value" ;;
    --tag=*) tag=$value ;;
    --archives=*) mkdir -p "$value"; archives=$(realpath "$value") ;;
    --storage=*) mkdir -p "$value"; storage=$(realpath "$value") ;;
    -h | --help) usage; exit ;;
    folio-manager | folio-worker | folio-worker-cuda | folio-gateway | folioctl) images+=("$argument") ;;
    *) echo "build.sh: unknown option or image $argument" >&2; usage >&2; exit 2 ;;
  esac
done
[ ${#images[@]} -gt 0 ] || images=(folio-manager folio-worker folio-gateway folioctl)

cd "$root"
version=$(sed -nE 's/^project\(folio VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
tag=${tag:-$version}
revision=$(git describe --always --dirty --exclude='*' --abbrev=40 2>/dev/null || true)
# The time in an image is that of its sources, so the same sources give the same image.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '[images] %s\n' "$*"; }
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 80 "$work/log" >&2; die "failed: $*"; }; }

if [ -z "$engine" ]; then
  # A client of Docker without its daemon is of no use.
  for name in docker podman buildah; do
    if "$name" info >/dev/null 2>&1; then engine=$name; break; fi
  done
  [ -n "$engine" ] || die "none of docker, podman and buildah works here: apt-get install buildah"
fi
case $engine in
  docker) builder=(docker) ;;
  podman) builder=(podman) ;;
  # Plain files and no nested container: this also works inside a container or a small virtual machine.
  buildah) builder=(buildah --storage-driver vfs ${storage:+--root "$storage/root" --runroot "$storage/run"}) ;;
  *) die "--engine=$engine is not known: give docker, podman or buildah" ;;
esac
[ -z "$storage" ] || [ "$engine" = buildah ] || die "--storage is for --engine=buildah"

# A base of Debian's packages alone, in the image localhost/folio-build-base.
make_base() {
  [ "$engine" = buildah ] || die "--base=mmdebstrap needs --engine=buildah"
  [ "$(id -u)" -eq 0 ] || die "--base=mmdebstrap needs root"
  local tool name
  for tool in mmdebstrap buildah; do
    command -v $tool >/dev/null || die "there is no $tool: apt-get install $tool"
  done
  say "making a base from Debian's packages"
  quietly mmdebstrap --variant=apt --include=ca-certificates bookworm "$work/base.tar"
  name=$("${builder[@]}" from scratch)
  quietly "${builder[@]}" add "$name" "$work/base.tar" /
  # A machine behind a gateway trusts certificates of its own, which compiling needs as well.
  quietly "${builder[@]}" copy "$name" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
  quietly "${builder[@]}" commit --rm "$name" localhost/folio-build-base
  rm "$work/base.tar"
}

base_arguments=(--build-arg "RUN_BASE=$run_base")
# The root file systems of programs that are compiled: FOLDER-OF-CONTEXT FOLDER-OF-PROGRAMS IMAGE...
take_programs() {
  local at=$1 from=$2 image
  shift 2
  [ -e "$from/../build.ninja" ] ||
    die "$from is not the folder bin of a build, so nothing tells what its programs are made of: run deploy/build.sh"
  mkdir -p "$at/roots"
  for image in "$@"; do
    quietly env SOURCE_DATE_EPOCH="$epoch" "$here/root.sh" "$from/${image%-cuda}" "$at/roots/$image"
  done
}
plain=() cuda=()
for image in "${images[@]}"; do
  case $image in *-cuda) cuda+=("$image") ;; *) plain+=("$image") ;; esac
done
compile=
if [ ${#plain[@]} -gt 0 ]; then
  if [ -n "$programs" ]; then take_programs "$work/plain" "$programs" "${plain[@]}"; else compile=1; fi
fi
if [ ${#cuda[@]} -gt 0 ]; then
  if [ -n "$cuda_programs" ]; then take_programs "$work/cuda" "$cuda_programs" "${cuda[@]}"; else compile=1; fi
fi
if [ -n "$compile" ]; then
  case $base in
    registry) ;;
    mmdebstrap) make_base; base_arguments+=(--build-arg BUILD_BASE=localhost/folio-build-base) ;;
    *) base_arguments+=(--build-arg "BUILD_BASE=$base") ;;
  esac
fi

build() { # IMAGE
  local arguments=("${base_arguments[@]}" --build-arg "VERSION=$tag" --build-arg "REVISION=$revision"
    --build-arg "SOURCE_DATE_EPOCH=$epoch" -f "$here/Containerfile" --target "$1" -t "localhost/$1:$tag")
  [ -z "$programs" ] || arguments+=(--build-context "programs=$work/plain")
  [ -z "$cuda_programs" ] || arguments+=(--build-context "programs-cuda=$work/cuda")
  # Layers keep the stage that compiles for the next image. Otherwise they would only cost copies.
  local layers=false
  [ -z "$compile" ] || layers=true
  [ "$engine" = docker ] ||
    arguments+=("--layers=$layers" --timestamp "$epoch" --ignorefile "$here/Containerfile.dockerignore")
  [ "$engine" != buildah ] || arguments+=(--isolation chroot)
  quietly "${builder[@]}" build "${arguments[@]}" "$root"
}
archive() { # IMAGE
  local to=$archives/$1.tar
  rm -f "$to"
  case $engine in
    docker) quietly docker save -o "$to" "localhost/$1:$tag" ;;
    podman) quietly podman save -o "$to" "localhost/$1:$tag" ;;
    buildah) quietly "${builder[@]}" push "localhost/$1:$tag" "docker-archive:$to:localhost/$1:$tag" ;;
  esac
}
for image in "${images[@]}"; do
  began=$SECONDS
  build "$image"
  [ -z "$archives" ] || archive "$image"
  say "localhost/$image:$tag built by $engine in $((SECONDS - began)) s"
done
