# shellcheck shell=bash
# The packages Folio is built with, by purpose; sourced by the set-up scripts, with what they ask of a machine. Debian 12, Ubuntu 24.04.
FOLIO_BUILD_PACKAGES=(
  ca-certificates git g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev libspdlog-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libxxhash-dev prometheus-cpp-dev
  libboost-dev libssl-dev
  libdnnl-dev ocl-icd-opencl-dev  # oneDNN's CMake configuration asks for OpenCL, its package does not
  python3 python3-pip python3-venv
)
FOLIO_TEST_PACKAGES=(libgtest-dev libgmock-dev mold xz-utils curl)  # tests/gpu/bundle.sh packs with xz
FOLIO_BROWSER_PACKAGE=chromium  # for tests/console; on Ubuntu it is a snap
FOLIO_FUZZ_PACKAGES=(clang-16 libclang-rt-16-dev)  # tests/fuzz/parsers
FOLIO_LINT_PACKAGES=(clang-format-16)  # clang-tidy: .ci/lint
# With npm, for the console's page.
FOLIO_NODE_MINIMUM=18.19
FOLIO_RUST_MINIMUM=1.82
# The names that services/model/tokenizer/CMakeLists.txt looks for, in its order; a test compares them.
FOLIO_CARGO_NAMES=(
  cargo cargo-1.91 cargo-1.89 cargo-1.85 cargo-1.84 cargo-1.83 cargo-1.82
)
# If none of them is recent enough, the first of these that the machine's package lists offer is installed.
# Debian's is installed beside its release's older one, and Ubuntu's carry their version.
FOLIO_RUST_PACKAGES=(cargo cargo-web "cargo-1.82 rustc-1.82")

recent_enough() {  # version, minimum
  [ -n "$1" ] && printf '%s\n%s\n' "$2" "$1" | sort -V -C
}
# Whether this machine can build the console's page.
recent_node() {
  command -v npm >/dev/null && recent_enough "$(node --version 2>/dev/null | tr -d v)" "$FOLIO_NODE_MINIMUM"
}
