# shellcheck shell=bash
# A fresh Debian 12 that boots systemd in a container, for run.sh. Sourced. It needs root.
# machine_up makes and boots it, inside runs a command in it as root, and machine_down ends it and removes its files.
machine_cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/packages
machine_root='' machine_init='' machine_nspawn=''

# The archives of this machine, for bookworm.
machine_sources() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
    awk '$1 == "Debian" && $3 ~ /^bookworm/ && $4 == "main" { print "deb", $2, $3, $4 }' | sort -u
}

# An archive of a root with systemd and nothing else that Folio needs. It is made once a month.
machine_archive() {
  local archive=$machine_cache/bookworm.tar sources
  if [ -z "$(find "$archive" -mtime -30 2>/dev/null)" ]; then
    sources=$(machine_sources)
    [ -n "$sources" ] || { echo "machine: apt knows no archive of Debian 12 here" >&2; return 1; }
    mkdir -p "$machine_cache"
    mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,systemd-sysv,ca-certificates \
      bookworm "$archive.part" - <<<"$sources" >&2 || return 1
    mv "$archive.part" "$archive"
  fi
  echo "$archive"
}

machine_up() { # folder for its files
  local archive pid
  archive=$(machine_archive) || return 1
  machine_root=$1
  mkdir -p "$machine_root" "$machine_cache/archives"
  tar -C "$machine_root" -xf "$archive"
  # Packages that were downloaded once are not downloaded again.
  SYSTEMD_LOG_LEVEL=warning systemd-nspawn --quiet --directory="$machine_root" --boot --register=no --keep-unit \
    --machine=folio-packages --resolv-conf=copy-host --bind="$machine_cache/archives:/var/cache/apt/archives" \
    --console=pipe </dev/null >"$machine_root.log" 2>&1 &
  machine_nspawn=$!
  for _ in $(seq 100); do
    sleep 0.2
    pid=$(pgrep -P "$machine_nspawn" | head -n 1) || continue
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = systemd ] || continue
    machine_init=$pid
    case $(inside systemctl is-system-running 2>/dev/null) in running | degraded) return 0 ;; esac
  done
  cat "$machine_root.log" >&2
  echo "machine: systemd did not come up in a container here" >&2
  return 1
}

inside() { # command...
  nsenter -t "$machine_init" -m -u -i -p -n --root --wd -- /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER='' SYSTEMD_COLORS=0 "$@"
}

machine_down() {
  if [ -n "$machine_nspawn" ] && kill -0 "$machine_nspawn" 2>/dev/null; then
    # systemd takes this as the order to power off.
    [ -z "$machine_init" ] || kill -s RTMIN+4 "$machine_init" 2>/dev/null || true
    for _ in $(seq 150); do
      kill -0 "$machine_nspawn" 2>/dev/null || break
      sleep 0.2
    done
    kill -KILL ${machine_init:+"$machine_init"} "$machine_nspawn" 2>/dev/null || true
    wait "$machine_nspawn" 2>/dev/null || true
  fi
  [ -z "$machine_root" ] || rm -rf "$machine_root" "$machine_root.log"
}
