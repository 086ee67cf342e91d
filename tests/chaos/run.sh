#!/usr/bin/env bash
# Injects faults under load, and writes a record into tests/chaos/results.
#
#   tests/chaos/run.sh [--faults 300] [--seed N] [--only KIND] [--out DIR] [--logs DIR]
#   tests/chaos/run.sh --merge A.json B.json ... [--out DIR]
#
# 300 faults take about 40 minutes on 2 cores. The seed is printed, and repeats a run's faults and requests. FOLIO_BIN is
# the folder of built programs. Without it, they are built into build/bin. It fails at the first thing that is wrong, and
# the record is written after each fault. The second form makes one record of several that have seeds of their own.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "${FOLIO_BIN:-}" ] && [ "${1:-}" != --merge ]; then
  "$root/deploy/setup.sh" --tests
  "$root/deploy/build.sh" "$root/build" -DCMAKE_BUILD_TYPE=Release -DFOLIO_TESTS=ON -- folio-manager folio-worker \
    write_tiny_model
fi
python=$("$root/tests/python.sh")
PYTHONPATH=$root/tests/chaos exec "$python" -m folio_chaos --out "$root/tests/chaos/results" "$@"
