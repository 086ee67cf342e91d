#!/usr/bin/env bash
# Makes the root file system of one image: deploy/images/root.sh PROGRAM DIR, such as root.sh build/bin/folioctl roots/folioctl
# DIR gets the program, stripped, the shared libraries that it needs and their licences, and the files that name the
# user 10001. There is no shell, no package manager and no other program in it. The libraries are those that the program
# finds on this machine, so run it where the program was built. DIR also gets a bill of materials under the name of the image,
# which is that of DIR, if the program lies in a build. Needs ldd, strip and dpkg-query, and for the bill Python with venv.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
program=$1 root=$2
die() { echo "root.sh: $*" >&2; exit 1; }
[ -x "$program" ] || die "there is no program at $program: build it with deploy/build.sh, or give another folder"
[ ! -e "$root" ] || die "$root exists already: remove it first"
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)

mkdir -p "$root"/{dev,etc,models,proc,run/folio,sys,"usr/lib/$triplet",usr/share/doc/folio,var/lib/dpkg/status.d}
mkdir "$root"/usr/{bin,sbin,lib64}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
name=$(basename "$program")
strip --strip-unneeded -o "$root/usr/bin/$name" "$program"
chmod 0755 "$root/usr/bin/$name"
cp "$here/../../LICENSE" "$root/usr/share/doc/folio/LICENSE"

# Records the Debian package that a file comes from, in the place where scanners look, and its licence.
record() {
  local path=$1 owner
  # A file is listed under the path that it was packed with, which may be /lib for /usr/lib.
  owner=$(dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}" 2>/dev/null || true)
  owner=${owner%%:*}
  [ -n "$owner" ] && [ ! -e "$root/var/lib/dpkg/status.d/$owner" ] || return 0
  dpkg-query -s "$owner:$(dpkg --print-architecture)" >"$root/var/lib/dpkg/status.d/$owner" 2>/dev/null ||
    dpkg-query -s "$owner" >"$root/var/lib/dpkg/status.d/$owner"
  mkdir -p "$root/usr/share/doc/$owner"
  cp -L "/usr/share/doc/$owner/copyright" "$root/usr/share/doc/$owner/copyright"
}

needed=$(ldd "$program")
if missing=$(grep 'not found' <<<"$needed"); then die "$name needs libraries that are not here:"$'\n'"$missing"; fi
# Lines are "libssl.so.3 => /lib/…/libssl.so.3 (0x…)", "/lib64/ld-linux-x86-64.so.2 (0x…)" and "linux-vdso.so.1 (0x…)".
while read -r first arrow path _; do
  case $first in
    linux-vdso*) continue ;;
    /*) cp -L "$first" "$root/usr/lib64/$(basename "$first")"; record "$(readlink -f "$first")"; continue ;;
  esac
  [ "$arrow" = '=>' ] || die "ldd says what this script does not understand: $first $arrow $path"
  # One folder that the loader knows by itself, also for what the program finds elsewhere (CUDA's libraries).
  install -m 0644 "$(readlink -f "$path")" "$root/usr/lib/$triplet/$first"
  record "$(readlink -f "$path")"
done <<<"$needed"
if [ -e "$root/usr/lib/$triplet/libcublasLt.so.13" ]; then
  # The wheels of deploy/cuda_wheels.sh have their licences beside their libraries.
  while read -r path; do
    cp "$path" "$root/usr/share/doc/folio/$(basename "$(dirname "$path")")-$(basename "$path")"
  done < <(find "$(dirname "$(ldd "$program" | awk '$1 ~ /^libcublasLt/ { print $3 }')")/.." -maxdepth 3 -iname 'License*')
fi
# The bill lists what is compiled in, and the licences of that lie beside it. A part whose licence may not be shipped ends this
# script.
build=$(realpath "$(dirname "$program")/..")
if [ -e "$build/build.ninja" ]; then
  cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
  bills=$(mktemp -d)
  trap 'rm -rf "$bills"' EXIT
  image=$(basename "$root")
  version=$(sed -nE 's/^project\(folio VERSION ([0-9.]+).*/\1/p' "$here/../../CMakeLists.txt")
  python=$("$here/../python_env.sh" "$cache/sbom-venv" "$here/../sbom/requirements.txt")
  "$python" "$here/../sbom/sbom.py" "$build" "$bills" "$version" "$image=bin/$name"
  cp "$bills/$image"/* "$root/usr/share/doc/folio/"
fi
# Debian's copyright files refer to these.
cp -rL /usr/share/common-licenses "$root/usr/share/common-licenses"
record /usr/share/common-licenses/Apache-2.0
cp -L /etc/os-release "$root/etc/os-release"

cat >"$root/etc/passwd" <<'PASSWD'
root:x:0:0:root:/:/usr/sbin/nologin
folio:x:10001:10001:Folio:/:/usr/sbin/nologin
PASSWD
printf 'root:x:0:\nfolio:x:10001:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
# A volume that a container engine makes here takes this owner and mode over.
chmod 0770 "$root/run/folio"
