#!/usr/bin/env bash
# Sets up, builds Release into build/ and runs the tests: C++ (ctest) and Python (pytest). Python tests that are marked long
# run if FOLIO_LONG_TESTS is set.
# Non-zero when anything fails, and when a test was skipped that tests/allowed_skips.txt does not
# list. FOLIO_CACHE chooses where the reference model and the Python environment live (default
# ~/.cache/folio).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

deploy/setup.sh --tests
FOLIO_MODEL=$(deploy/fetch_model.sh)
echo "[tests] building"
deploy/build.sh build -DCMAKE_BUILD_TYPE=Release -DFOLIO_TESTS=ON

python=$(tests/python.sh)
FOLIO_MODEL_HF=$(tests/model/hf_directory.sh)
export FOLIO_MODEL FOLIO_MODEL_HF FOLIO_BIN=$root/build/bin

echo "[tests] C++"
# The reports need the whole output of a program, because only that names the skips inside it.
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" \
  --output-junit "$root/build/tests_cpp.xml" --test-output-size-passed 1000000
echo "[tests] Python"
# One file of tests more than two processors can take at a time, because many tests wait for half of theirs.
# A test that hangs is stopped, and shows where it stood.
"$python" -m pytest -q -n 3 --dist loadfile --timeout 600 -p no:cacheprovider --junitxml=build/tests_python.xml tests
echo "[tests] skips"
tests/skips.py build/tests_cpp.xml build/tests_python.xml
