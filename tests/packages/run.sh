#!/usr/bin/env bash
# Installs, uses, upgrades under load and removes the Debian packages on a fresh Debian 12 that boots systemd in a container.
#   tests/packages/run.sh [BUILD]          BUILD is a Release build without CUDA, by default build
# Needs root, and about ten minutes with the download of Debian's packages. RESULTS=FILE keeps the report, in Markdown.
# Cached in ${FOLIO_CACHE:-${XDG_CACHE_HOME:-~/.cache}/folio}/packages: the root and the downloaded packages.
# shellcheck disable=SC2034  # checks.sh uses what this sets
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
case ${1:-} in -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;; esac
build=$(realpath "${1:-$root/build}")
fail() { printf 'packages: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "a container needs root: run this with sudo"

work=$(mktemp -d "${TMPDIR:-/tmp}/folio-packages.XXXXXX")
# shellcheck source=tests/packages/machine.sh
. "$root/tests/packages/machine.sh"
# shellcheck source=tests/packages/checks.sh
. "$root/tests/packages/checks.sh"
ended() {
  local code=$?
  if [ $code -ne 0 ] && [ -n "$machine_init" ]; then
    echo "packages: the last words of the services:" >&2
    inside journalctl --no-pager -n 40 -u 'folio-*' >&2 || true
  fi
  machine_down
  rm -rf "$work"
  return $code
}
trap ended EXIT
trap 'exit 130' INT TERM

report=$work/report.md
began=$SECONDS
# Runs one check, says how long it took, and ends at the first that fails. A check may write a note to $work/note.
check() { # function, sentence
  local start=$SECONDS note=
  rm -f "$work/note"
  if ! "$1" >"$work/log" 2>&1; then
    cat "$work/log" >&2
    fail "not so: $2"
  fi
  [ ! -f "$work/note" ] || note=": $(tr '\n' ' ' <"$work/note" | sed 's/[, ]*$//')"
  printf '[packages] %4d s  %s%s\n' $((SECONDS - began)) "$2" "$note"
  printf '| %s | %d s | %s |\n' "$2" $((SECONDS - start)) "${note#: }" >>"$report"
}

missing=()
for tool in mmdebstrap:mmdebstrap systemd-nspawn:systemd-container lintian:lintian dpkg-shlibdeps:dpkg-dev; do
  command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "[packages] installing ${missing[*]}"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "apt-get could not install ${missing[*]}"; }
fi
model=$("$root/deploy/fetch_model.sh")

check make_packages "the packages are made, in two versions"
check run_lintian "lintian has no errors and no warnings"
machine_up "$work/machine"
check look_before "a fresh Debian 12 boots"
check install_packages "\`apt install ./folio-*.deb\` installs and enables, and nothing has failed"
check first_text "two commands give text"
check first_http "the gateway answers the same question over HTTP"
check examine_units "the installed units are right for \`systemd-analyze verify\`, with exposure at most 2.0"
check examine_access "only root and the group folio reach the sockets"
check build_against_sdk "a project of three lines builds against libfolio-client-dev, and asks the worker"
check survive_crashes "systemd starts killed daemons again"
check end_stopped_worker "the manager kills a worker that stands still, systemd starts it again, and its stream continues, with the whole pool in memory"
check run_second_worker "folio-worker@second serves beside the first"
check serve_metrics "both daemons serve metrics, the manager with the change of its unit that README.Debian describes"
check upgrade_under_load "an upgrade restarts the workers and not the manager, and every stream ends with its whole text"
check restart_manager "systemctl restart folio-manager runs the new program, and the workers attach again"
check remove_packages "apt remove stops the services and keeps configuration and models"
check reinstall_packages "a new installation takes the kept configuration and serves at once"
check purge_packages "apt purge keeps the models and says so, and leaves nothing else"

if [ -n "${RESULTS:-}" ]; then
  {
    echo "# Packages on Debian 12"
    printf '\n%s\n\n' "Made by \`tests/packages/run.sh\` on $(date +%F), of $("$build/bin/folioctl" --version | head -n 1). The container runs $(cat "$work/systemd-version") on Linux$(
      uname -r | sed 's/^/ /; s/-.*//'), with $(nproc) cores."
    printf '| step | took | found |\n|---|---|---|\n'
    cat "$report"
    printf '\n%s\n' "All steps passed in $((SECONDS - began)) s."
  } >"$RESULTS"
fi
echo "[packages] all is well"
