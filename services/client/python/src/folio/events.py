"""Events of a manager: `Events` for threads, `AsyncEvents` for event loops."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from folio import checks
from folio.errors import Cancelled, from_rpc
from folio.messages import of, read, word
from folio.server import Server, never_connected
from folio.v1 import admin_pb2

_KINDS: dict[str, Any] = {
    word(admin_pb2.EventKind.DESCRIPTOR, number): number for number in admin_pb2.EventKind.values() if number
}

EVENT_KINDS = tuple(_KINDS)
"""The kinds of events, as words."""


@of("Event")
@dataclass(frozen=True)
class Event:
    """Something that happened in the manager. proto/folio/v1/admin.proto says what each kind has, and all else is None.

    `number` grows by 1 with each event of any kind, and begins at 1 in each process of the manager, whose `boot_id` the stream has.
    """

    number: int
    time_us: int
    kind: str
    worker_id: str | None
    worker_name: str | None
    rank: int | None
    pid: int | None
    sequence_id: int | None
    label: str | None
    sequences: int | None
    pages: int | None
    freed_pages: int | None
    tokens: int | None
    lease_epoch: int | None
    policy: str | None
    code: str | None
    text: str | None
    workers: int | None
    pool: str | None = None

    @property
    def time(self) -> datetime.datetime:
        """The time of day, in UTC."""
        return datetime.datetime.fromtimestamp(self.time_us / 1e6, datetime.timezone.utc)


@of("LostEvents")
@dataclass(frozen=True)
class LostEvents:
    """So many events of the kinds that were asked for are missing here, because the manager keeps the newest ones of each
    kind, and they were asked for or read too late."""

    events: int


def events_message(after: int, follow: bool, kinds: Iterable[str] | str) -> Any:
    """A request for events."""
    request = admin_pb2.WatchEventsRequest(
        after=checks.integer("after", after, most=checks.UINT64), follow=checks.flag("follow", follow)
    )
    if kinds == "all":
        kinds = EVENT_KINDS
    if isinstance(kinds, str):
        raise ValueError(f'kinds must be "all" or several words, is "{kinds}"')
    for at, kind in enumerate(kinds):
        if kind not in _KINDS:
            raise ValueError(f'kinds[{at}] "{kind}" is not a kind of event; the kinds are {", ".join(EVENT_KINDS)}')
        request.kinds.append(_KINDS[kind])
    return request


def _content(response: Any) -> Event | LostEvents | None:
    """None for something that this version does not know."""
    which = response.WhichOneof("content")
    return None if which is None else read(getattr(response, which))


class Events(Iterator["Event | LostEvents"]):
    """Events as they come. Iterate in one thread. Any thread may call `cancel`.

    The iteration ends when a manager that is followed has ended in order, and raises `Unavailable` when it is lost. It
    raises `ResourceExhausted` if as many streams are open as the manager serves. Leaving a `with` block, `close`, or
    dropping it ends the stream. `boot_id` is that of the manager, as in `Manager`, and empty before the first event.
    """

    boot_id = ""

    def __init__(self, server: Server, request: Any, timeout: float | None) -> None:
        self._server = server
        self._closed = False
        self._call = server.stub().WatchEvents(request, timeout=timeout, metadata=server.metadata)

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event | LostEvents:
        while True:
            try:
                response = next(self._call)
            except grpc.RpcError as error:
                if self._closed:
                    raise StopIteration from None
                raise from_rpc(error, self._server.name) from error
            self.boot_id = response.boot_id
            content = _content(response)
            if content is not None:
                return content

    def cancel(self) -> None:
        """Ends the stream from any thread. The iteration raises `Cancelled`."""
        self._call.cancel()

    def close(self) -> None:
        """Ends the stream and the iteration, without an error."""
        self._closed = True
        self._call.cancel()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_call"):
            self._call.cancel()


class AsyncEvents(AsyncIterator["Event | LostEvents"]):
    """As `Events`, in the event loop that it was made in. Cancelling the task that iterates ends it too."""

    boot_id = ""

    def __init__(self, server: Server, request: Any, timeout: float | None) -> None:
        self._server = server
        self._cancelled = self._closed = False
        self._loop = asyncio.get_running_loop()
        self._call = server.start_in_loop("WatchEvents", request, timeout)

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event | LostEvents:
        while True:
            try:
                response = await self._call.read()
            except asyncio.CancelledError:
                # grpc.aio raises the same for a cancelled call and for a cancelled task.
                if self._closed:
                    raise StopAsyncIteration from None
                if self._cancelled or self._server.closed:
                    raise Cancelled(grpc.StatusCode.CANCELLED, "the stream was cancelled", self._server.name) from None
                self._call.cancel()
                raise
            except grpc.RpcError as error:
                if self._closed:
                    raise StopAsyncIteration from None
                if never_connected(error):
                    self._server.met_nobody_in_loop()
                raise from_rpc(error, self._server.name) from error
            if response is grpc.aio.EOF:
                raise StopAsyncIteration
            self.boot_id = response.boot_id
            content = _content(response)
            if content is not None:
                return content

    def cancel(self) -> None:
        """Ends the stream. The iteration raises `Cancelled`."""
        self._cancelled = True
        self._call.cancel()

    async def aclose(self) -> None:
        """Ends the stream and the iteration, without an error."""
        self._closed = True
        self._call.cancel()

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # It may be dropped in any thread, and after its loop.
        if hasattr(self, "_call") and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._call.cancel)
