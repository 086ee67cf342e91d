"""A generation in progress: `Generation` for threads, `AsyncGeneration` for event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc

from folio.progress import Progress
from folio.results import Chunk, Completion
from folio.server import Workers, never_connected


class Generation(Progress, Iterator[Chunk]):
    """The answer, piece by piece. Iterate in one thread. Any thread may call `cancel`.

    Ending it early - by leaving a `with` block, by `close`, or by dropping it - cancels the request, and the
    server takes its pages back within a step.

    If its worker is lost, another one resumes it, and the pieces continue as if nothing had happened. If the sequence is
    gone, the request is replayed (`Client(replay=...)`), and `finished` says how often. There are two exceptions.
    Log-probabilities that were lost with the worker are NaN, and some figures of `finished` count from the resumption. A
    generation that reports evictions is neither resumed nor replayed, because some reports might be lost or come twice.
    """

    def __init__(self, workers: Workers, request: Any, timeout: float | None) -> None:
        super().__init__(workers, request, timeout)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._start()

    def _start(self) -> None:
        stub = self._server.stub()
        call = stub.Generate(self._request, timeout=self._deadline.left(), metadata=self._server.metadata)
        with self._lock:
            self._stub, self._call = stub, call
            if self._cancelled or self._closed:
                call.cancel()

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Chunk:
        while not self._ended:
            try:
                event = next(self._call)
            except StopIteration:
                self._end()
                break
            except grpc.RpcError as error:
                if never_connected(error):
                    self._server.met_nobody(self._stub)
                pause = self._pause_after(error)
                if pause is None:
                    break
            else:
                chunk = self._take(event)
                if chunk is not None:
                    return chunk
                continue
            self._stopping.wait(pause)
            self._start()
        raise StopIteration

    def _stop(self, mark: str) -> None:
        with self._lock:
            setattr(self, mark, True)
            if not self._ended:
                self._call.cancel()
        self._stopping.set()

    def cancel(self) -> None:
        """Ends the request from any thread. The iteration raises `Cancelled`."""
        self._stop("_cancelled")

    def close(self) -> None:
        """Ends the request and the iteration, without an error."""
        self._stop("_closed")

    def result(self) -> Completion:
        """Runs to the end and returns the whole generation, with the pieces that were iterated before."""
        for _ in self:
            pass
        return self._completion()

    def text(self) -> str:
        """Runs to the end and returns the whole text."""
        return self.result().text

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._call is not None and not self._ended:
            self._call.cancel()


class AsyncGeneration(Progress, AsyncIterator[Chunk]):
    """As `Generation`, in the event loop that it was made in. Cancelling the task that iterates ends it too."""

    def __init__(self, workers: Workers, request: Any, timeout: float | None) -> None:
        super().__init__(workers, request, timeout)
        self._loop = asyncio.get_running_loop()
        self._start()

    def _start(self) -> None:
        self._call = self._server.start_in_loop("Generate", self._request, self._deadline.left())
        if self._cancelled or self._closed:
            self._call.cancel()

    def __aiter__(self) -> AsyncGeneration:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ended:
            try:
                event = await self._call.read()
            except asyncio.CancelledError:
                self._after_cancel()
                break
            except grpc.RpcError as error:
                if never_connected(error):
                    self._server.met_nobody_in_loop()
                pause = self._pause_after(error)
                if pause is None:
                    break
                await asyncio.sleep(pause)
                self._start()
                continue
            if event is grpc.aio.EOF:
                self._end()
                break
            chunk = self._take(event)
            if chunk is not None:
                return chunk
        raise StopAsyncIteration

    def _after_cancel(self) -> None:
        """grpc.aio raises the same for a cancelled call and for a cancelled task, whose cancellation must continue."""
        self._ended = True
        if self._closed:
            return
        if self._cancelled or self._server.closed:
            self._fail(self._cancelled_error())
        self._call.cancel()
        raise

    def cancel(self) -> None:
        """Ends the request. The iteration raises `Cancelled`."""
        self._cancelled = True
        self._call.cancel()

    async def aclose(self) -> None:
        """Ends the request and the iteration, without an error."""
        self._closed = True
        self._call.cancel()

    async def result(self) -> Completion:
        """Runs to the end and returns the whole generation, with the pieces that were iterated before."""
        async for _ in self:
            pass
        return self._completion()

    async def text(self) -> str:
        """Runs to the end and returns the whole text."""
        return (await self.result()).text

    async def __aenter__(self) -> AsyncGeneration:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # It may be dropped in any thread, and after its loop.
        if self._call is not None and not self._ended and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._call.cancel)
