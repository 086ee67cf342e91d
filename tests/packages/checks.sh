# shellcheck shell=bash disable=SC2154,SC2016
# The checks of run.sh, in its order. Sourced. Each function ends with an error when its claim does not hold.
services=(folio-manager.socket folio-manager-export.socket folio-manager.service folio-worker.service folio-gateway.service)
question="What is the capital of France?"
# An answer that repeats to the token, and ends while a worker drains.
essay_tokens=400
essay=(generate "Once upon a time" --mode synchronous --policy paged_eviction --budget 256 --ignore_eos
  --max_tokens $essay_tokens)

note() { printf '%s\n' "$*" >>"$work/note"; }
expect() { # what it is, expected, found
  [ "$2" = "$3" ] || { echo "$1: expected \"$2\", found \"$3\""; return 1; }
}
wait_for() { # seconds, command...
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { echo "not in time: $*"; return 1; }
    sleep 0.2
  done
}
pid_of() { inside systemctl show -P MainPID "$1"; }
state_of() { inside systemctl is-active "$1" || true; }
serves() { inside folioctl --timeout 20s generate Hello --max_tokens 3; }
# The unit runs, in another process than before.
replaced() { # unit, process id
  local now
  now=$(pid_of "$1")
  [ "$now" != 0 ] && [ "$now" != "$2" ]
}

make_packages() {
  local version
  version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")/\1/p' "$build/CPackConfig.cmake")
  next=${version%.*}.$((${version##*.} + 1))
  "$root/deploy/package.sh" "$build" "$work/first" && "$root/deploy/package.sh" --version="$next" "$build" "$work/second" &&
    note "$version and $next; $(
      cd "$work/first" && du -k -- *.deb | awk '{ sub("_.*", "", $2); printf "%s %.1f MB, ", $2, $1 / 1000 }')"
}

run_lintian() {
  # The overrides are in the packages, each with its reason.
  lintian --fail-on error,warning --no-cfg "$work"/first/*.deb
}

look_before() {
  inside systemctl --version | head -n 1 | awk '{ print $1, $2 }' >"$work/systemd-version"
  mkdir -p "$machine_root/root/first" "$machine_root/root/second" && cp "$work"/first/*.deb "$machine_root/root/first" &&
    cp "$work"/second/*.deb "$machine_root/root/second" && inside apt-get update -q &&
    expect "state" running "$(inside systemctl is-system-running)"
}

install_packages() {
  inside sh -c 'cd /root/first && apt-get install -q -y ./folio-*.deb' || return 1
  inside sh -c 'cd /root/first && dpkg -l folio-manager folio-worker folio-gateway folioctl' || return 1
  local unit
  for unit in "${services[@]}"; do
    expect "$unit" enabled "$(inside systemctl is-enabled "$unit")" || return 1
  done
  expect "manager" active "$(state_of folio-manager.service)" || return 1
  expect "gateway" active "$(state_of folio-gateway.service)" || return 1
  expect "worker without a model" inactive "$(state_of folio-worker.service)" || return 1
  expect "failed units" "" "$(inside systemctl list-units --failed --plain --no-legend)" || return 1
  # Without a model the start is skipped, with a word about it.
  inside systemctl start folio-worker || return 1
  expect "worker without a model" inactive "$(state_of folio-worker.service)" || return 1
  inside journalctl --no-pager -u folio-worker | grep -q "there is no model at /var/lib/folio/models/default"
}

first_text() {
  local said
  cp "$model" "$machine_root/root/model.gguf"
  inside sh -c 'cp /root/model.gguf /var/lib/folio/models/default && systemctl start folio-worker' || return 1
  said=$(inside folioctl generate --chat "$question") || return 1
  note "\"$said\""
  grep -q Paris <<<"$said" && expect "user" folio "$(inside stat -c %U "/proc/$(pid_of folio-worker)")"
}

# The gateway found the worker by itself, which was started after it.
first_http() {
  local said
  said=$(inside bash -c '
    body="{\"messages\": [{\"role\": \"user\", \"content\": \"$0\"}]}"
    exec 3<>/dev/tcp/127.0.0.1/8000 &&
      printf "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s" \
        ${#body} "$body" >&3 && cat <&3' "$question") || return 1
  grep -q Paris <<<"$said" || { echo "$said"; return 1; }
}

examine_units() {
  inside systemd-analyze verify --man=no "${services[@]}" folio-worker@second.service || return 1
  local unit said exposure
  for unit in folio-manager.service folio-gateway.service folio-worker.service folio-worker@second.service; do
    said=$(inside systemd-analyze security --no-pager "$unit") || return 1
    exposure=$(sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\).*/\1/p' <<<"$said")
    awk -v found="$exposure" 'BEGIN { exit !(found != "" && found <= 2.0) }' || { echo "$unit: $exposure"; return 1; }
    note "$unit $exposure,"
  done
}

examine_access() {
  inside sh -c 'useradd stranger && useradd -G folio member' || return 1
  inside runuser -u member -- folioctl pools || return 1
  inside runuser -u member -- folioctl generate --chat "$question" | grep -q Paris || return 1
  local command
  for command in pools "generate Hello"; do
    # shellcheck disable=SC2086
    ! inside runuser -u stranger -- folioctl --timeout 3s $command || { echo "a stranger may: $command"; return 1; }
  done
  expect "export socket" "srw------- folio folio" "$(inside stat -c '%A %U %G' /run/folio/export.sock)" || return 1
  # The worker cannot gain rights.
  local pid
  pid=$(pid_of folio-worker)
  expect "new privileges" 1 "$(inside sed -n 's/^NoNewPrivs:\t//p' "/proc/$pid/status")" || return 1
  expect "capabilities" 0000000000000000 "$(inside sed -n 's/^CapBnd:\t//p' "/proc/$pid/status")"
}

build_against_sdk() {
  inside sh -c 'cd /root/first && apt-get install -q -y --no-install-recommends ./libfolio-client-dev_*.deb cmake g++ make' ||
    return 1
  inside sh -c '
    mkdir /root/ask && cd /root/ask && cp /usr/share/doc/libfolio-client-dev/examples/example.cc . &&
    printf "%s\n" "cmake_minimum_required(VERSION 3.25)" "project(ask LANGUAGES CXX)" "find_package(folio REQUIRED)" \
      "add_executable(ask example.cc)" "target_link_libraries(ask PRIVATE folio::client)" >CMakeLists.txt &&
    cmake -B build && cmake --build build' || return 1
  inside /root/ask/build/ask unix:/run/folio/worker.sock "$question" | grep Paris
}

survive_crashes() {
  local unit before
  for unit in folio-worker folio-manager; do
    before=$(pid_of $unit)
    inside sh -c "kill -KILL $before" || return 1
    wait_for 30 replaced "$unit" "$before" || return 1
    wait_for 30 serves || return 1
  done
}

shared_memory() { awk '$1 == "Shmem:" { print int($2 / 1024) }' /proc/meminfo; }

one_decodes() { inside folioctl sequences | grep -q decode; }

# With the whole pool in memory, because the manager's unit allows few system calls.
end_stopped_worker() {
  local before memory stream whole
  memory=$(shared_memory)
  inside sh -c '
    cp /etc/folio/manager.flags /root/manager.flags &&
    sed -i "s/^--kill_fenced_after=.*/--kill_fenced_after=2s/; s/^--pool_bytes=.*/--pool_bytes=512MiB/; s/^#--prefault/--prefault/" \
      /etc/folio/manager.flags && echo --lease_ttl=2s >>/etc/folio/manager.flags &&
    systemctl restart folio-manager folio-worker' || return 1
  wait_for 30 serves || return 1
  memory=$(($(shared_memory) - memory))
  [ "$memory" -ge 400 ] || { echo "the pool of 512 MiB takes $memory MiB"; return 1; }
  whole=$(inside folioctl "${essay[@]}") || return 1
  # It is killed because it blocks the pages of this stream, which goes on in the new process.
  inside folioctl "${essay[@]}" >"$work/stream" 2>"$work/errors" &
  stream=$!
  wait_for 20 one_decodes || return 1
  before=$(pid_of folio-worker)
  inside sh -c "kill -STOP $before" || return 1
  wait_for 30 replaced folio-worker "$before" || return 1
  wait "$stream" || { cat "$work/errors"; return 1; }
  expect "stream" "$whole" "$(cat "$work/stream")" || return 1
  inside journalctl --no-pager -u folio-manager | grep -q "killed a process of a fenced worker" || return 1
  inside sh -c 'cat /root/manager.flags >/etc/folio/manager.flags && systemctl restart folio-manager' && wait_for 30 serves
}

run_second_worker() {
  inside sh -c '
    sed -i "s/^--drain_timeout=.*/--drain_timeout=50s/" /etc/folio/worker.flags &&
    sed "s/^--listen=.*//" /etc/folio/worker.flags >/etc/folio/worker-second.flags &&
    systemctl restart folio-worker && systemctl start folio-worker@second' || return 1
  inside folioctl --address unix:/run/folio/worker-second.sock generate --chat "$question" | grep -q Paris || return 1
  note "$(inside folioctl pools --output json | grep -c '"pid"') processes at the manager"
}

# What a Prometheus on the same machine would read: PORT
metrics_of() {
  inside bash -c "exec 3<>/dev/tcp/127.0.0.1/$1 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3"
}

serve_metrics() {
  # With the flags that the comments of the flag files show, and the change that README.Debian describes.
  inside sh -c '
    mkdir /etc/systemd/system/folio-manager.service.d &&
    sed -n "/^TCP addresses/,/^Limits/s/^    //p" /usr/share/doc/folio-manager/README.Debian \
      >/etc/systemd/system/folio-manager.service.d/override.conf &&
    sed -i "s/^#--metrics_listen/--metrics_listen/" /etc/folio/manager.flags /etc/folio/worker.flags &&
    systemctl daemon-reload && systemctl restart folio-manager folio-worker' || return 1
  wait_for 30 serves || return 1
  local port said
  for port in 7003 7004; do
    said=$(metrics_of $port) || return 1
    grep -q "^folio:build_info{" <<<"$said" || { echo "$said"; return 1; }
    note "$(grep -c "^folio:" <<<"$said") values at port $port,"
  done
  inside sh -c '
    rm -r /etc/systemd/system/folio-manager.service.d &&
    sed -i "s/^--metrics_listen/#--metrics_listen/" /etc/folio/manager.flags /etc/folio/worker.flags &&
    systemctl daemon-reload && systemctl restart folio-manager folio-worker' || return 1
  wait_for 30 serves
}

three_decode() { [ "$(inside folioctl sequences | grep -c decode)" -ge 3 ]; }

# Asks one worker or the other until the file is gone, and counts the answers. Fails when neither answers.
keep_asking() { # file, file for the count
  local count=0
  while [ -e "$1" ]; do
    inside folioctl --timeout 60s generate Hello --max_tokens 3 ||
      inside folioctl --timeout 60s --address unix:/run/folio/worker-second.sock generate Hello --max_tokens 3 || return 1
    count=$((count + 1))
    echo "$count" >"$2"
  done
}

upgrade_under_load() {
  local manager first second before stream streams=() asking
  before=$(inside folioctl "${essay[@]}") || return 1
  manager=$(pid_of folio-manager) first=$(pid_of folio-worker) second=$(pid_of folio-worker@second)
  touch "$work/asking"
  keep_asking "$work/asking" "$work/answers" >"$work/asked" 2>&1 &
  asking=$!
  for stream in 1 2 3; do
    inside folioctl "${essay[@]}" >"$work/stream.$stream" 2>"$work/errors.$stream" &
    streams+=($!)
  done
  wait_for 20 three_decode || return 1
  inside sh -c 'cd /root/second && apt-get install -q -y ./folio-*.deb' | tee "$work/apt" || return 1
  rm "$work/asking"
  wait "$asking" || { tail -n 5 "$work/asked"; echo "for a moment no worker answered"; return 1; }
  for stream in 1 2 3; do
    wait "${streams[$stream - 1]}" || { cat "$work/errors.$stream"; return 1; }
    expect "stream $stream" "$before" "$(cat "$work/stream.$stream")" || return 1
  done
  expect "version" "$next-1" "$(inside dpkg-query -W -f='${Version}' folio-worker)" || return 1
  expect "manager" "$manager" "$(pid_of folio-manager)" || return 1
  replaced folio-worker "$first" && replaced folio-worker@second "$second" || return 1
  grep -q "run 'systemctl restart folio-manager'" "$work/apt" || return 1
  # The administrator's change is still there.
  inside grep -q '^--drain_timeout=50s$' /etc/folio/worker.flags || return 1
  note "3 streams of $essay_tokens tokens equal the text from before, $(cat "$work/answers") requests answered meanwhile"
}

restart_manager() {
  local before
  before=$(pid_of folio-manager)
  inside systemctl restart folio-manager || return 1
  replaced folio-manager "$before" && wait_for 30 serves
}

remove_packages() {
  inside apt-get remove -q -y folio-manager folio-worker folioctl libfolio-client-dev || return 1
  expect "processes of folio" "" "$(inside find /proc -maxdepth 1 -user folio)" || return 1
  inside sh -c 'test -e /etc/folio/worker.flags && test -e /etc/folio/manager.flags && test -e /var/lib/folio/models/default'
}

reinstall_packages() {
  inside sh -c 'cd /root/second && apt-get install -q -y ./folio-*.deb' || return 1
  inside grep -q '^--drain_timeout=50s$' /etc/folio/worker.flags && inside folioctl generate --chat "$question" | grep -q Paris
}

purge_packages() {
  inside apt-get purge -q -y folio-manager folio-worker folioctl | tee "$work/apt" || return 1
  grep -q "/var/lib/folio is kept" "$work/apt" || return 1
  inside rm -r /var/lib/folio /etc/folio/worker-second.flags || return 1
  # That file was the administrator's, so its folder was kept.
  inside rmdir /etc/folio || return 1
  # The packages and what the test made with them lie in /root.
  expect "files" "" "$(inside find / -xdev -iname '*folio*' ! -path '/root/*')" || return 1
  expect "runtime files" "" "$(inside find /run -iname '*folio*' ! -path '/run/host/*')" || return 1
  expect "user" "" "$(inside getent passwd folio || true)" || return 1
  expect "group" "" "$(inside getent group folio || true)" || return 1
  expect "units" "" "$(inside systemctl list-units --all --plain --no-legend 'folio*')" || return 1
  expect "packages" "" "$(inside sh -c 'dpkg -l | grep folio || true')" || return 1
  expect "state" running "$(inside systemctl is-system-running)"
}
