#!/usr/bin/env bash
# Checks the chart helm/folio without a cluster: run.sh [--write]
# It lints and renders the chart with every file of values/, validates the result against Kubernetes' schemas, compares
# each pod's Pod Security level with the one that the file names, runs the unit tests, and compares kube-score's
# findings with the list that was reviewed. It also runs all of refused.txt, compares README.md, the version and the flags
# of our programs, runs the alerts on series in which all is well or wrong, checks the dashboard, and runs the script that
# downloads a model.
# --write writes README.md of the chart and deploy/images/alerts.yaml first. Less than a minute once tools.sh has built its
# programs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
chart=$root/helm/folio
case ${1:-} in '' | --write) ;; *) sed -n '2,9p' "$0" >&2; exit 2 ;; esac
tools=$("$here/tools.sh")
promtool=$("$here/promtool.sh")/promtool
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of the user's Helm is read or written.
export HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm HELM_NO_PLUGINS=1
kubernetes=$(awk '$1 == "schemas" { print substr($4, 2) }' "$here/tools.txt")

began=$SECONDS
step() { printf '[helm] %3d s  %s\n' $((SECONDS - began)) "$1"; }
die() { echo "tests/helm/run.sh: $*" >&2; exit 1; }
render() { "$tools/helm" template folio "$chart" --namespace models --kube-version "$kubernetes" "$@"; }

make_readme() {
  "$tools/helm-docs" --chart-search-root "$chart" --template-files README.md.gotmpl --sort-values-order file --dry-run \
    --log-level error >"$work/README.md"
}

# The alerts as a file of Prometheus: ARGUMENTS-OF-HELM...
make_alerts() {
  render --set model.claim=models --set gateway.enabled=true --set metrics.prometheusRule.enabled=true --show-only templates/alerts.yaml "$@" |
    sed -e '1,/^spec:$/d' -e 's/^  //'
}

# The same for a Prometheus without its operator, whose jobs are named folio-manager and folio-worker.
make_plain_alerts() {
  printf '# The alerts of the chart with their default limits, for a Prometheus without its operator.\n'
  printf '# tests/helm/run.sh --write makes this file of helm/folio/files/alerts.yaml.\n'
  make_alerts --set-string 'metrics.prometheusRule.selector=job=~"folio-.*"'
}

check_version() {
  local wanted version versions
  wanted=$(sed -nE 's/^project\(folio VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
  mapfile -t versions < <(sed -nE 's/^(version|appVersion): "?([^"]*)"?$/\2/p' "$chart/Chart.yaml")
  [ ${#versions[@]} -eq 2 ] || die "Chart.yaml must have a version and an appVersion"
  for version in "${versions[@]}"; do
    [ "$version" = "$wanted" ] || die "Chart.yaml has version $version, and CMakeLists.txt has $wanted"
  done
}

check_monitoring() {
  make_alerts >"$work/rules.yaml"
  python3 -B "$here/monitoring.py" "$root/docs/monitoring.md" "$chart/files/dashboard.json" "$work/rules.yaml" \
    "$work/dashboard.yaml"
  cp "$here/alerts_test.yaml" "$work"
  local files=("$work/rules.yaml" "$work/dashboard.yaml" "$root/deploy/images/alerts.yaml")
  "$promtool" check rules "${files[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "promtool refuses an expression"; }
  "$promtool" test rules "$work/alerts_test.yaml" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "an alert does not do what alerts_test.yaml says"; }
}

# Renders one file of values, and checks it: FILE
check_values() {
  local name level
  name=$(basename "$1" .yaml)
  level=$(sed -n '1s/^# //p' "$1")
  "$tools/helm" lint --strict --quiet "$chart" --kube-version "$kubernetes" -f "$1" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "helm lint refuses $1"; }
  render -f "$1" >"$work/$name.yaml" || die "helm does not render $1"
  "$tools/kubeconform" -strict -schema-location "$tools/schemas/{{.ResourceKind}}{{.KindSuffix}}.json" \
    -schema-location "$here/crds/{{.ResourceKind}}{{.KindSuffix}}.json" "$work/$name.yaml" || die "Kubernetes $kubernetes would refuse what $1 gives"
  "$tools/podsecurity" <"$work/$name.yaml" >"$work/$name.levels"
  # The level that a namespace can have is that of its least strict pod.
  local found=restricted one
  for one in baseline privileged; do ! grep -q "^[^ ]* [^ ]* $one" "$work/$name.levels" || found=$one; done
  [ "$found" = "$level" ] || { cat "$work/$name.levels" >&2; die "$1 says level $level, and its pods need $found"; }
}

check_refusals() {
  local line arguments words
  while IFS= read -r line; do
    case $line in '' | '#'*) continue ;; esac
    read -r -a arguments <<<"${line%% => *}"
    words=${line#* => }
    if render "${arguments[@]}" >"$work/log" 2>&1; then die "this is not refused: ${arguments[*]}"; fi
    grep -qF -- "$words" "$work/log" || { cat "$work/log" >&2; die "${arguments[*]} is refused without the words: $words"; }
    refusals=$((refusals + 1))
  done <"$here/refused.txt"
}

if [ "${1:-}" = --write ]; then
  step "writing README.md and alerts.yaml"
  make_readme
  cp "$work/README.md" "$chart/README.md"
  make_plain_alerts >"$root/deploy/images/alerts.yaml"
fi
step "version, README.md and scripts"
check_version
make_readme
diff -u "$chart/README.md" "$work/README.md" || die "helm/folio/README.md is stale: run tests/helm/run.sh --write"
make_plain_alerts | diff -u "$root/deploy/images/alerts.yaml" - ||
  die "deploy/images/alerts.yaml is stale: run tests/helm/run.sh --write"
files=("$here"/values/*.yaml)
step "lint, render, schemas and Pod Security of ${#files[@]} files of values"
for file in "${files[@]}"; do check_values "$file"; done
refusals=0
check_refusals
step "$refusals refusals were right; unit tests"
"$tools/unittest" --strict --color=false -f "../../tests/helm/unittest/*_test.yaml" "$chart" >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; die "a unit test failed"; }
grep -E '^(Tests|Test Suites):' "$work/log"
step "alerts and dashboard"
check_monitoring
step "kube-score"
for file in "${files[@]}"; do
  name=$(basename "$file" .yaml)
  # It exits with 1 when it finds anything. score.py decides what that means.
  "$tools/kube-score" score --kubernetes-version "v${kubernetes%.*}" -o json "$work/$name.yaml" >"$work/$name.score" || true
done
python3 "$here/score.py" "$here/score.txt" "$work"/*.score
step "flags of our programs, and the download of a model"
python3 -B "$here/flags.py" "$work"/*.yaml
"$here/fetch_test.sh"
step "done"
