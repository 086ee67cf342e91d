"""The SDK's stubs of proto/, as it is in this tree."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The environment that tests/python.sh made is kept up to date; another one is its owner's affair.
_environment = pathlib.Path(sys.prefix)
if (_environment / ".requirements").exists():
    subprocess.run(
        [ROOT / "tests/python.sh"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "FOLIO_CACHE": str(_environment.parent)},
    )

from folio.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc  # noqa: E402
from folio.v1 import kv_manager_pb2, kv_manager_pb2_grpc, types_pb2  # noqa: E402

__all__ = [
    "ROOT",
    "admin_pb2",
    "admin_pb2_grpc",
    "inference_pb2",
    "inference_pb2_grpc",
    "kv_manager_pb2",
    "kv_manager_pb2_grpc",
    "types_pb2",
]
