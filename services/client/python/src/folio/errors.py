"""The exceptions of calls. Each gRPC status has its class, so that `except folio.ResourceExhausted` does what it says.

Arguments that cannot be right are a ValueError or TypeError instead, before anything is sent.
"""

from __future__ import annotations

import grpc


class FolioError(Exception):
    """A call that failed. The original grpc.RpcError, where there was one, is its `__cause__`."""

    status: grpc.StatusCode
    """The gRPC status, e.g. grpc.StatusCode.RESOURCE_EXHAUSTED."""
    details: str
    """The server's words, or gRPC's where the server said nothing."""

    def __init__(self, status: grpc.StatusCode, details: str, server: str = "") -> None:
        super().__init__(status, details, server)
        self.status = status
        self.details = details
        self.server = server

    def __str__(self) -> str:
        where = f"{self.server}: " if self.server else ""
        return f"{self.status.name}: {where}{self.details}"


class InvalidArgument(FolioError):
    """The server refused the request. `details` names the field."""


class ResourceExhausted(FolioError):
    """The pool is full. `details` says what would free room."""


class NotFound(FolioError):
    """For example, no such sequence is open."""


class FailedPrecondition(FolioError):
    """For example, the request is a chat but the model has no chat template."""


class Unavailable(FolioError):
    """Nothing answers at the address, or the server went away or is shutting down."""


class DeadlineExceeded(FolioError):
    """The call took longer than `timeout` seconds."""


class Cancelled(FolioError):
    """The call was cancelled, or its client was closed."""


class Aborted(FolioError):
    """The sequence ended because something that it needed ended."""


class Unimplemented(FolioError):
    """The server is older than this client, or is another kind of server. A manager that has --admin_listen answers
    operators' calls at those addresses alone."""


class PermissionDenied(FolioError):
    """The server does not allow this call for this client."""


class Unauthenticated(FolioError):
    """The server must know its callers, and the call shows no token or certificate that it knows."""


class DataLoss(FolioError):
    """The model computed a number that is not finite for this sequence, which ended. Others continue."""


class Internal(FolioError):
    """A bug, of the server or of this client."""


_BY_STATUS: dict[grpc.StatusCode, type[FolioError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgument,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.INTERNAL: Internal,
}


def make_error(status: grpc.StatusCode, details: str, server: str = "") -> FolioError:
    """An exception of the class that belongs to the status."""
    return _BY_STATUS.get(status, FolioError)(status, details, server)


def from_rpc(error: grpc.RpcError, server: str) -> FolioError:
    """The exception for an error of gRPC, of either of its interfaces."""
    return make_error(error.code(), error.details() or "", server)
