# shellcheck shell=bash
# The packages Folio is built with, by purpose; sourced by the set-up scripts. Debian 12, Ubuntu 24.04.
FOLIO_BUILD_PACKAGES=(
  ca-certificates git g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev libspdlog-dev nlohmann-json3-dev libdnnl-dev libcli11-dev libxxhash-dev
  python3 python3-pip python3-venv
)
FOLIO_TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev)
FOLIO_LINT_PACKAGES=(clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev)
FOLIO_RUST_MINIMUM=1.80
# Debian's newer Rust beside the one of the release, for where that one is too old.
FOLIO_RUST_PACKAGE=cargo-web
