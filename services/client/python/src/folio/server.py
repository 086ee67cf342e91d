"""One server with its address, its channel, which is made when first needed, and the rules for retries."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from folio import checks
from folio.encryption import Credentials, Pem, Tls
from folio.errors import from_rpc
from folio.identity import metadata

KEEPALIVE = 10.0  # seconds, as services/grpc/keepalive.h has it for C++

_OPTIONS = [
    # Answers to Score with candidates for thousands of tokens are larger than gRPC's default of 4 MiB.
    ("grpc.max_receive_message_length", 256 << 20),
    # A server on this node is never behind a proxy.
    ("grpc.enable_http_proxy", 0),
    # A channel that another client left in back-off would make this one fail too.
    ("grpc.use_local_subchannel_pool", 1),
    # Reconnecting to it takes no time either.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
]


def channel_options(keepalive: float) -> list[tuple[str, int]]:
    """The options of a channel that asks its server so often, in seconds, whether it is still there. 0 never asks."""
    if not keepalive:
        return _OPTIONS
    milliseconds = round(keepalive * 1000)
    return [
        *_OPTIONS,
        ("grpc.keepalive_time_ms", milliseconds),
        ("grpc.keepalive_timeout_ms", milliseconds // 2),
        # Newer versions of gRPC wait for the answer to a ping with a time of its own, a minute by default.
        ("grpc.http2.ping_timeout_ms", milliseconds // 2),
        # A worker may have nothing to say for longer than gRPC would keep asking.
        ("grpc.http2.max_pings_without_data", 0),
    ]


def default_address(variable: str, socket: str) -> str:
    """The default address of folioctl, which is the variable or the socket where the daemons listen by default."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = f"{base}/folio" if base.startswith("/") else "/run/folio"
    return os.environ.get(variable) or f"unix:{folder}/{socket}"


def check_address(name: str, address: object) -> str:
    """An address as all of Folio takes it, unix:/path or host:port."""
    text = checks.text(name, address)
    if text.startswith("unix:"):
        if len(text) > len("unix:"):
            return text
        raise ValueError(f'{name} "unix:" names no socket')
    if text.startswith("/"):
        raise ValueError(f'{name} "{text}": for a Unix socket write unix:{text}')
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f'{name} "{text}" is neither unix:/path nor host:port')
    return text


class Deadline:
    """The deadline of a call with all its attempts. A timeout of None has none."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Seconds, for gRPC's `timeout`."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def allows(self, seconds: float) -> bool:
        left = self.left()
        return left is None or seconds < left


def is_unavailable(error: grpc.RpcError) -> bool:
    """The statuses after which a read may be tried again."""
    return error.code() == grpc.StatusCode.UNAVAILABLE


def is_loss(error: grpc.RpcError) -> bool:
    """The statuses that tell of a lost worker, if this client has not cancelled. gRPC itself gives CANCELLED to a call
    that reaches a worker in the moment in which the worker ends."""
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def is_gone(error: grpc.RpcError) -> bool:
    """The statuses by which a manager tells that it does not have a sequence. One that was started without the record of
    the last one may have given its number to another sequence, whose token is another one. A sequence that it has given
    up, because it may be what ends its workers, is ABORTED."""
    return error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED)


def never_connected(error: grpc.RpcError) -> bool:
    """True if the request cannot have reached a server. Only gRPC's words tell, because the status alone does not.
    If gRPC changes its words, calls are merely not tried again."""
    words = ("failed to connect to all addresses", "DNS resolution failed")
    return is_unavailable(error) and (error.details() or "").startswith(words)


class Retries:
    """The attempts of one call, and the pause before the next."""

    def __init__(self, most: int, deadline: Deadline, safe: Callable[[grpc.RpcError], bool]) -> None:
        self._left, self._deadline, self._safe = most, deadline, safe
        self._pause = 0.1

    def pause_after(self, error: grpc.RpcError) -> float | None:
        """Seconds until the next attempt, or None if there is none. An attempt has at least as long as the pause before
        it. With less time it would end with DEADLINE_EXCEEDED, which says less than `error` does."""
        pause = self._pause * random.uniform(0.7, 1.3)
        if self._left <= 0 or not self._safe(error) or not self._deadline.allows(2 * pause):
            return None
        self._left -= 1
        self._pause = min(2 * self._pause, 2.0)
        return pause


class _LoopChannel:
    """A channel of grpc.aio, which belongs to the event loop that it was made in, and the calls on it. `pem` is what its
    encryption was made from, or None for a plain one."""

    def __init__(self, channel: Any, make_stub: Callable[[Any], Any], pem: Pem | None) -> None:
        self.channel, self.pem = channel, pem
        self.stub = make_stub(channel)
        self.calls: weakref.WeakSet[Any] = weakref.WeakSet()

    async def close(self) -> None:
        # The channel itself ends only calls that a task waits for.
        for call in list(self.calls):
            call.cancel()
        await self.channel.close()


class Server:
    """Thread-safe. `make_stub` makes the generated stub of a channel. `keepalive` is as in `Client`, and so is `tls`, with
    which Unix sockets have nothing to do. With None connections are plain. All calls carry `metadata`, which holds the token."""

    def __init__(
        self,
        role: str,
        address: str,
        make_stub: Callable[[Any], Any],
        retries: int,
        keepalive: float = KEEPALIVE,
        tls: Tls | None = None,
        token: str = "",
    ) -> None:
        self.metadata = metadata(token)
        self.name = f'{role} at "{address}"'
        self.retries = retries
        self.closed = False
        self._address, self._make_stub = address, make_stub
        self._credentials = None if tls is None or address.startswith("unix:") else Credentials(tls)
        self._options: list[tuple[str, Any]] = [*channel_options(keepalive)]
        if self._credentials is not None:
            self._options += self._credentials.options
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._stub: Any = None
        self._loops: weakref.WeakKeyDictionary[Any, _LoopChannel] = weakref.WeakKeyDictionary()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the client is closed")

    def _connect(self, api: Any) -> tuple[Any, Pem | None]:
        """A channel of `api`, which is grpc or grpc.aio, and what its encryption is made from."""
        if self._credentials is None:
            return api.insecure_channel(self._address, options=self._options), None
        pem = self._credentials.read()
        return api.secure_channel(self._address, self._credentials.of(pem), options=self._options), pem

    def stub(self) -> Any:
        """The stub of the channel for threads. Raises a ValueError if a file of the encryption cannot be used."""
        with self._lock:
            self._check_open()
            if self._channel is None:
                self._channel, _ = self._connect(grpc)
                self._stub = self._make_stub(self._channel)
            return self._stub

    def met_nobody(self, stub: Any) -> None:
        """The next call gets a channel of its own. One that met no server connects again only while a call is
        there to drive it, and calls fail before it has."""
        with self._lock:
            if self._stub is stub:
                self._channel, self._stub = None, None

    def _loop_channel(self) -> _LoopChannel:
        channel, pem = self._connect(grpc.aio)
        return _LoopChannel(channel, self._make_stub, pem)

    def met_nobody_in_loop(self) -> None:
        """The running loop's next call gets a channel of its own if the files of the encryption have changed, which may be
        why no server was met. Calls that run keep theirs."""
        if self._credentials is None:
            return
        loop = asyncio.get_running_loop()
        with self._lock:
            own = self._loops.get(loop)
            if own is not None and not self.closed and own.pem != self._credentials.read():
                self._loops[loop] = self._loop_channel()
                self._loops[loop].calls.update(own.calls)

    def start_in_loop(self, method: str, request: Any, timeout: float | None) -> Any:
        """A call in the running event loop. Raises RuntimeError if there is none, and otherwise as `stub` does."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._check_open()
            if loop not in self._loops:
                self._loops[loop] = self._loop_channel()
            own = self._loops[loop]
        call = getattr(own.stub, method)(request, timeout=timeout, metadata=self.metadata)
        own.calls.add(call)
        return call

    def close(self) -> None:
        """Ends the running calls. Calls in event loops end with their loop, or by `aclose`."""
        with self._lock:
            self.closed = True
            channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            channel.close()

    async def aclose(self) -> None:
        """As `close`, and ends the running loop's calls."""
        self.close()
        with self._lock:
            own = self._loops.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.close()

    def call(
        self, method: str, request: Any, timeout: float | None, safe: Callable[[grpc.RpcError], bool] = is_unavailable
    ) -> Any:
        """Runs a unary call to its end."""
        deadline = Deadline(timeout)
        retries = Retries(self.retries, deadline, safe)
        while True:
            stub = self.stub()
            try:
                return getattr(stub, method)(request, timeout=deadline.left(), metadata=self.metadata)
            except grpc.RpcError as error:
                if never_connected(error):
                    self.met_nobody(stub)
                pause = retries.pause_after(error)
                if pause is None:
                    raise from_rpc(error, self.name) from error
            time.sleep(pause)




@dataclass(frozen=True)
class Workers:
    """The servers that a generation may run on, the client's first and then those on standby."""

    servers: tuple[Server, ...]
    resume: float
    """After the loss of a worker, others are asked for this many seconds to continue. With 0 none is asked."""
    replay: bool = True
    """Whether they are asked to compute a sequence again that is gone."""
