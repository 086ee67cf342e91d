"""Python stubs of proto/, generated into a temporary directory when first imported."""

import atexit
import pathlib
import shutil
import sys
import tempfile

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]

_directory = tempfile.mkdtemp(prefix="folio-stubs.")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
_files = sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto/folio/v1").glob("*.proto"))
if protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={_directory}", f"--grpc_python_out={_directory}", *_files]):
    raise RuntimeError("protoc failed")
sys.path.insert(0, _directory)

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
