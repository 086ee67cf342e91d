#!/usr/bin/env bash
# A real Kubernetes cluster of one node, on a machine without an image registry: cluster.sh build|up|load ARCHIVE...|down
#   build   builds the programs (binaries.sh); up does so too
#   up      starts the cluster and prints the path of its kubeconfig
#   load    loads archives of images that deploy/images/build.sh --archives has written
#   down    ends all of it and removes what it left on this machine
# Needs root on Debian 12 or Ubuntu 24.04; it installs etcd, containerd, runc and CNI plug-ins. It runs under cgroup v1 and
# v2. Pods get addresses by the plug-in ptp, Services by kube-proxy, names by CoreDNS. No NetworkPolicy is enforced.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}/kubernetes
run=$cache/run node=localhost
# An address of this machine alone: of the node, and of the DNS server, which pods reach through their gateway.
address=10.87.0.1 pods=10.88.0.0/16 services=10.96.0.0/16
etcd=http://127.0.0.1:12379 api=https://127.0.0.1:16443
parts=(kubelet kube-proxy coredns scheduler controller-manager apiserver etcd containerd) # in the order in which they end

say() { printf '[cluster] %s\n' "$*" >&2; }
die() { echo "cluster.sh: $*" >&2; exit 1; }
quietly() { "$@" >"$run/log" 2>&1 || { tail -n 40 "$run/log" >&2; die "failed: $*"; }; }
kubectl() { "$bin/kubectl" --kubeconfig "$run/kubeconfig" "$@"; }
images() { ctr -a "$run/cri/containerd.sock" -n k8s.io "$@"; }

install_packages() {
  local packages=(etcd-server containerd runc containernetworking-plugins iptables conntrack busybox-static buildah
    openssl iproute2)
  local missing=() name
  for name in "${packages[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  quietly apt-get update -q
  # Services of these packages that start now have other ports and sockets than the cluster's own.
  quietly env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# A pid can be given to another process, so the time of its start is kept with it.
started() { awk '{ sub(/.*\) /, ""); print $20 }' "/proc/$1/stat" 2>/dev/null; }
start() { # NAME COMMAND...
  local name=$1
  shift
  setsid "$@" >"$run/$name.log" 2>&1 </dev/null &
  echo "$! $(started $!)" >"$run/$name.pid"
}
running() {
  local pid time
  read -r pid time 2>/dev/null <"$run/$1.pid" || return 1
  [ -n "$time" ] && [ "$(started "$pid")" = "$time" ] && echo "$pid"
}
# Waits until a command succeeds, as long as the part that it asks lives: PART SECONDS COMMAND...
await() {
  local part=$1 deadline=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ! running "$part" >/dev/null || [ $SECONDS -ge $deadline ]; then
      tail -n 15 "$run/$part.log" >&2
      die "$part does not work: $run/$part.log has all that it said"
    fi
    sleep 0.3
  done
}

write_files() {
  local token
  mkdir -p "$run"/{etcd,pki,cri,cni,kubelet}
  chmod 700 "$run"
  quietly openssl genrsa -out "$run/pki/sa.key" 2048
  quietly openssl rsa -in "$run/pki/sa.key" -pubout -out "$run/pki/sa.pub"
  token=$(openssl rand -hex 24)
  echo "$token,admin,admin,\"system:masters\"" >"$run/tokens.csv"
  cat >"$run/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: folio, cluster: {server: "$api", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: folio, context: {cluster: folio, user: admin}}]
current-context: folio
YAML
  chmod 600 "$run/kubeconfig" "$run/tokens.csv"
  cat >"$run/containerd.toml" <<TOML
version = 2
root = "$run/cri/root"
state = "$run/cri/state"
[grpc]
  address = "$run/cri/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true # runc cannot lower it where CAP_SYS_RESOURCE is missing
  netns_mounts_under_state_dir = true # so that \`down\` finds those of a run that was cut off
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$(snapshotter)"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$run/cni"
TOML
  cat >"$run/cni/10-pods.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "folio-pods", "plugins": [{"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local",
 "dataDir": "$run/cni-addresses", "subnet": "$pods", "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
  cat >"$run/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow} # it listens on the loopback address alone
clusterDNS: [$address]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$run/cri/containerd.sock
evictionHard: {nodefs.available: "1%", memory.available: "100Mi"}
imageGCHighThresholdPercent: 100 # no registry could give an image back
enforceNodeAllocatable: [pods]
YAML
  cat >"$run/Corefile" <<COREFILE
.:53 {
  bind $address
  errors
  cache 2
  kubernetes cluster.local {
    kubeconfig $run/kubeconfig
  }
}
COREFILE
}

# overlayfs shares files between containers. They are copied if the kernel or the file system does not have it.
snapshotter() {
  mkdir -p "$run/try"/{lower,upper,work,merged}
  if mount -t overlay overlay -o "lowerdir=$run/try/lower,upperdir=$run/try/upper,workdir=$run/try/work" "$run/try/merged" \
    2>/dev/null; then
    umount "$run/try/merged"
    echo overlayfs
  else
    echo native
  fi
  rm -rf "$run/try"
}

start_control_plane() {
  say "starting etcd and the control plane"
  start etcd etcd --data-dir "$run/etcd" --listen-client-urls $etcd --advertise-client-urls $etcd \
    --listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 \
    --initial-cluster default=http://127.0.0.1:12380 --unsafe-no-fsync
  start apiserver "$bin/kube-apiserver" --etcd-servers=$etcd --service-cluster-ip-range=$services --bind-address=127.0.0.1 \
    --advertise-address=$address --secure-port=16443 --cert-dir="$run/pki" --token-auth-file="$run/tokens.csv" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$run/pki/sa.pub" \
    --service-account-signing-key-file="$run/pki/sa.key" --authorization-mode=RBAC --allow-privileged=true \
    --kubelet-preferred-address-types=Hostname
  await apiserver 90 kubectl get namespace default
  local config=("--kubeconfig=$run/kubeconfig" "--authentication-kubeconfig=$run/kubeconfig"
    "--authorization-kubeconfig=$run/kubeconfig" --leader-elect=false --bind-address=127.0.0.1)
  start controller-manager "$bin/kube-controller-manager" "${config[@]}" \
    --service-account-private-key-file="$run/pki/sa.key"
  start scheduler "$bin/kube-scheduler" "${config[@]}"
}

start_containerd() {
  start containerd containerd --config "$run/containerd.toml"
  await containerd 30 images version
  # The container that holds the namespaces of a pod, and the tools that init containers ask for.
  local b=(buildah --storage-driver vfs --root "$run/buildah" --runroot "$run/buildah-run") name image
  for image in localhost/pause:1 busybox:1.37; do
    name=$("${b[@]}" from scratch)
    quietly "${b[@]}" copy "$name" "$(command -v busybox)" /bin/busybox
    if [ "$image" = localhost/pause:1 ]; then
      quietly "${b[@]}" config --entrypoint '["/bin/busybox", "sleep", "1000000"]' "$name"
    else
      mkdir -p "$run/links"
      while read -r link; do ln -sf /bin/busybox "$run/links/$link"; done < <(busybox --list)
      rm -f "$run/links/busybox"
      quietly "${b[@]}" copy "$name" "$run/links" /bin
    fi
    quietly "${b[@]}" commit --rm "$name" "$image"
    quietly "${b[@]}" push "$image" "docker-archive:$run/image.tar:$image"
    load "$run/image.tar"
    rm -f "$run/image.tar"
  done
  rm -rf "$run/buildah" "$run/buildah-run" "$run/links"
}

start_node() {
  say "starting the node"
  cat /proc/sys/net/ipv4/ip_forward >"$run/ip_forward"
  echo 1 >/proc/sys/net/ipv4/ip_forward
  ip address replace "$address/32" dev lo
  start kubelet "$bin/kubelet" --config "$run/kubelet.yaml" --kubeconfig "$run/kubeconfig" --root-dir "$run/kubelet" \
    --hostname-override $node --node-ip $address
  start kube-proxy "$bin/kube-proxy" --kubeconfig "$run/kubeconfig" --hostname-override $node --cluster-cidr $pods \
    --proxy-mode iptables --iptables-localhost-nodeports=false --conntrack-max-per-core 0 \
    --conntrack-tcp-timeout-established 0s --conntrack-tcp-timeout-close-wait 0s \
    --healthz-bind-address 127.0.0.1:10256 --metrics-bind-address 127.0.0.1:10249
  start coredns "$bin/coredns" -conf "$run/Corefile"
  await kubelet 90 kubectl wait --for=condition=Ready "node/$node" --timeout=1s
  await controller-manager 60 kubectl get serviceaccount default
  await kube-proxy 30 bash -c '</dev/tcp/127.0.0.1/10249'
  running coredns >/dev/null || await coredns 0 false
}

up() {
  local part began=$SECONDS
  for part in "${parts[@]}"; do
    if running "$part" >/dev/null; then die "the cluster is up already, or a part of it: run cluster.sh down first"; fi
  done
  [ ! -e "$run" ] || down
  mkdir -p "$run"
  install_packages
  write_files
  start_control_plane
  start_containerd
  start_node
  say "up after $((SECONDS - began)) s"
  echo "$run/kubeconfig"
}

load() {
  [ -S "$run/cri/containerd.sock" ] || die "the cluster is not up: run cluster.sh up"
  local archive
  for archive in "$@"; do quietly images images import "$archive"; done
}

# Ends what `up` has started, by the kept pids, and removes what it and the pods left.
down() {
  [ -e "$run" ] || return 0
  local part pid signal id
  if running apiserver >/dev/null && running kubelet >/dev/null; then
    kubectl delete pods --all --all-namespaces --grace-period=1 --timeout=60s >/dev/null 2>&1 || true
  fi
  if pid=$(running kubelet); then kill "$pid" && sleep 1; fi
  for id in $(images tasks ls -q 2>/dev/null); do images tasks kill -s SIGKILL "$id" 2>/dev/null || true; done
  for signal in TERM KILL; do
    for part in "${parts[@]}"; do
      if pid=$(running "$part"); then kill -$signal "$pid" 2>/dev/null || true; fi
    done
    for _ in $(seq 25); do
      for part in "${parts[@]}"; do if running "$part" >/dev/null; then sleep 0.2; continue 2; fi; done
      break
    done
  done
  # Containers outlive a containerd that was killed. Their shims name its socket.
  for pid in $(pgrep -f -- "^[^ ]*containerd-shim[^ ]* .*-address $run/cri/containerd.sock"); do
    pkill -KILL -P "$pid" || true
    kill -KILL "$pid" 2>/dev/null || true
  done
  awk -v at="$run/" 'index($2, at) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l
  [ ! -x "$bin/kube-proxy" ] || "$bin/kube-proxy" --cleanup >/dev/null 2>&1 || true
  # kube-proxy leaves the chains of the kubelet.
  for part in INPUT OUTPUT; do iptables -D $part -j KUBE-FIREWALL 2>/dev/null || true; done
  iptables -F KUBE-FIREWALL 2>/dev/null || true
  iptables -X KUBE-FIREWALL 2>/dev/null || true
  for part in mangle nat filter; do iptables -t $part -X KUBE-KUBELET-CANARY 2>/dev/null || true; done
  ip address delete "$address/32" dev lo 2>/dev/null || true
  [ ! -s "$run/ip_forward" ] || cat "$run/ip_forward" >/proc/sys/net/ipv4/ip_forward
  # Empty folders by now, if every container has ended.
  find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
  rm -rf "$run"
}

case ${1:-} in
  build | up | load | down) ;;
  *) sed -n '2,8p' "$0" >&2; exit 2 ;;
esac
[ "$(id -u)" -eq 0 ] || die "a node needs root"
if [ "$1" = down ]; then bin=$cache/bin-${KUBE_VERSION:-v1.34.4}; else bin=$("$here/binaries.sh"); fi
case $1 in build) ;; *) "$@" ;; esac
