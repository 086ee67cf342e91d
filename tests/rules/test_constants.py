"""Numbers that documents state are those of the code.

Each row names a document, the pattern of the number in it, sources and the pattern of the constant there. Sources may
be a glob, so that a constant may move within its room. Every match must have the same value.
"""

import re

import pytest
from test_layout import ROOT

PROTO = "proto/folio/v1/"
POLICY, QUERY_DIFF = "services/policy/*.*", "services/policy/query_diff.h"
NUMBER = r"([\d.]+\d|\d+)"


def field(message, name):
    """The default of a message's optional field, which its comment gives as "unset: N"."""
    return rf"message {message} {{(?:(?!\n}})[\s\S])*?\n  (?://[^\n]*unset: {NUMBER}\)?\.?\n  )?optional \w+ {name} = \d+;" \
           rf"(?:[^\n]*unset: {NUMBER})?"


SNAP_KV = rf"struct SnapKv\w* {{[^}}]*\b%s = {NUMBER};"
ROWS = [
    (PROTO + "kv_manager.proto", rf" protocol_version = 1;  // {NUMBER}", "services/base/*.h", rf"kOldestProtocolVersion = {NUMBER};"),
    (PROTO + "kv_manager.proto", rf"newest_protocol_version = 10;  // {NUMBER}", "services/base/*.h", rf"kProtocolVersion = {NUMBER};"),
    (PROTO + "kv_manager.proto", rf"every n-th of them if[^.]*more than {NUMBER}", "services/model/**/*.h",
     rf"kMaxSamples = {NUMBER};"),
    ("services/model/family/model_config.cc", rf"kKeyTile = {NUMBER};", "kernels/views.h", rf"kKeyTile = {NUMBER};"),
    (PROTO + "inference.proto", rf"most likely ones \(at most {NUMBER}\)", "services/worker/engine/*.h", rf"kMaxTopLogprobs = {NUMBER};"),
    (PROTO + "inference.proto", rf"top_logprobs = \d+;  // at most {NUMBER}", "services/worker/engine/*.h",
     rf"kMaxTopLogprobs = {NUMBER};"),
    (PROTO + "inference.proto", rf"max_tokens = \d+; +// 0: {NUMBER},", "services/worker/rpc/*.h", rf"kDefaultMaxTokens = {NUMBER};"),
    (PROTO + "types.proto", field("SnapKvPolicy", "window"), POLICY, SNAP_KV % "window"),
    (PROTO + "types.proto", rf"\(?unset: {NUMBER}\)?\.\n  optional uint32 pool = 2;", POLICY, SNAP_KV % "pool"),
    (PROTO + "types.proto", rf"odd, at most {NUMBER}", POLICY, rf"kMaxPool = {NUMBER};"),
    (PROTO + "types.proto", rf"Unset: 0.25, or {NUMBER} tokens", "services/policy/query_diff.cc", rf"kLeast = {NUMBER};"),
    (PROTO + "types.proto", field("QueryDiffPolicy", "window"), QUERY_DIFF, rf"window = {NUMBER};"),
    (PROTO + "types.proto", field("QueryDiffPolicy", "pool"), QUERY_DIFF, rf"pool = {NUMBER};"),
    (PROTO + "types.proto", field("KvCrushPolicy", "share"), "services/policy/kv_crush.h", rf"share = {NUMBER}F;"),
    ("docs/operating.md", rf"--max_connections`[^|]*default is\s{NUMBER},", "services/runtime/*.h",
     rf"kDefaultMaxConnections = {NUMBER};"),
    ("docs/operating.md", rf"more than {NUMBER} calls to a worker", "services/grpc/*.h", rf"max_calls = {NUMBER};"),
    ("docs/operating.md", rf"or {NUMBER} to a manager", "services/manager/server.cc", rf"kMaxCalls = {NUMBER};"),
    ("docs/operating.md", rf"and at most {NUMBER}, are kept", "services/runtime/connection_flag.cc",
     rf"kMostReserved = {NUMBER};"),
    ("CONTRIBUTING.md", rf"Headers have at most {NUMBER} lines", "tests/rules/test_layout.py", rf"HEADER_LINES, .*= {NUMBER},"),
    ("CONTRIBUTING.md", rf"lines, sources {NUMBER}", "tests/rules/test_layout.py", rf"HEADER_LINES, .*= \d+, {NUMBER},"),
    ("CONTRIBUTING.md", rf"sources \d+, functions {NUMBER}", "tests/rules/test_functions.py", rf"FUNCTION_LINES = {NUMBER}\n"),
    ("CONTRIBUTING.md", rf"{NUMBER} public\s+methods", "tests/rules/test_classes.py", rf"PUBLIC_METHODS = {NUMBER}\n"),
    *((f"{crate}/Cargo.toml", rf'rust-version = "{NUMBER}"', "deploy/packages.sh", rf"FOLIO_RUST_MINIMUM={NUMBER}")
      for crate in ("services/base/boundary", "services/cli/query", "services/model/tokenizer/ffi")),
    ("services/model/tokenizer/ffi/README.md", rf"cargo {NUMBER} or newer", "deploy/packages.sh", rf"FOLIO_RUST_MINIMUM={NUMBER}"),
]


def values(sources, pattern):
    """The numbers that a pattern's groups match in some files."""
    found = [match for path in sorted(ROOT.glob(sources)) for match in re.finditer(pattern, path.read_text())]
    return {float(group) for match in found for group in match.groups() if group is not None}


@pytest.mark.parametrize("document, stated, sources, constant", ROWS)
def test_documents_state_the_code_s_numbers(document, stated, sources, constant):
    said, true = values(document, stated), values(sources, constant)
    assert len(said) == 1, f"{document} does not state one number by {stated}: {sorted(said)}"
    assert len(true) == 1, f"{sources} has not one constant {constant}: {sorted(true)}"
    assert said == true, f"{document} says {said.pop():g} by {stated}, {sources} has {true.pop():g}"
