"""A generation in progress: `Generation` for threads, `AsyncGeneration` for event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc

from folio.errors import Cancelled, FolioError, from_rpc, make_error
from folio.messages import read
from folio.results import Chunk, Completion, Eviction, Finished, Started
from folio.server import Deadline, Retries, Server, Workers, is_unavailable, never_connected
from folio.v1 import inference_pb2


RESUME_PAUSE = 0.1  # seconds between two attempts


class Progress:
    """The events so far, which both kinds of generation share."""

    started: Started | None = None
    """Set when the request was admitted: sequence id, prompt tokens, cache options, seed."""
    finished: Finished | None = None
    """Set at the end: reason, stop string, usage, and what the cache held and lost."""

    _call: Any = None
    _ended = _closed = _cancelled = False
    _error: FolioError | None = None

    def __init__(self, workers: Workers, request: Any, timeout: float | None) -> None:
        self._workers, self._at, self._request = workers, 0, request
        self._server: Server = workers.servers[0]
        # The error that lost the worker, until something new comes, and until when another one is looked for.
        self._lost: grpc.RpcError | None = None
        self._until = Deadline(None)
        self._deadline = Deadline(timeout)
        self._retries = Retries(self._server.retries, self._deadline, never_connected)
        self._silent = True
        self._chunks: list[Chunk] = []
        self._evictions: list[Eviction] = []

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """The evictions so far, with `report_evictions`."""
        return tuple(self._evictions)

    def _take(self, event: Any) -> Chunk | None:
        """Records an event, and returns it if it is a chunk."""
        self._silent = False
        kind = event.WhichOneof("event")
        if kind in ("chunk", "prefill"):
            self._lost = None
        if kind == "chunk":
            self._chunks.append(read(event.chunk))
            return self._chunks[-1]
        if kind == "started":
            self.started = read(event.started)
        elif kind == "eviction":
            self._evictions.append(read(event.eviction))
        elif kind == "finished":
            self.finished = read(event.finished)
        return None

    def _end(self) -> None:
        """Handles a stream that ended without an error."""
        self._ended = True
        if self.finished is None and not self._closed:
            self._fail(make_error(grpc.StatusCode.INTERNAL, "the stream ended without a result", self._server.name))

    def _pause_after(self, error: grpc.RpcError) -> float | None:
        """Seconds until the next attempt, or None if there is none. Raises if the end is a failure."""
        if self._closed or self.finished is not None:
            self._ended = True
            return None
        if self._cancelled:
            self._fail(self._cancelled_error(), error)
        # Once an event has come, another attempt would give the same text twice.
        pause = self._retries.pause_after(error) if self._silent else self._pause_to_resume(error)
        if pause is None:
            self._fail(self._lost_error(error), error)
        return pause

    def _pause_to_resume(self, error: grpc.RpcError) -> float | None:
        """As `_pause_after`, for a lost worker. The next attempt asks another one to continue."""
        if self.started is None or not self.started.resume_token or not is_unavailable(error):
            return None
        if self._lost is None:
            self._lost, self._until = error, Deadline(self._workers.resume)
        if not self._until.allows(RESUME_PAUSE) or not self._deadline.allows(RESUME_PAUSE):
            return None
        self._at = (self._at + 1) % len(self._workers.servers)
        self._server = self._workers.servers[self._at]
        received = [token for chunk in self._chunks for token in chunk.tokens]
        resume = inference_pb2.Resume(
            sequence_id=self.started.sequence_id, resume_token=self.started.resume_token, received_tokens=received
        )
        self._request = inference_pb2.GenerateRequest(resume=resume)
        return RESUME_PAUSE

    def _lost_error(self, error: grpc.RpcError) -> FolioError:
        """The last error, or the error that lost the worker if no other worker continued."""
        last = from_rpc(error, self._server.name)
        if self._lost is None or self._lost is error or last.status == grpc.StatusCode.CANCELLED:
            return last
        details = f"{self._lost.details()}; not resumed: {last.details}"
        return make_error(self._lost.code(), details, self._server.name)

    def _cancelled_error(self) -> FolioError:
        return Cancelled(grpc.StatusCode.CANCELLED, "the generation was cancelled", self._server.name)

    def _fail(self, error: FolioError, cause: BaseException | None = None) -> None:
        self._ended = True
        self._error = error
        raise error from cause

    def _completion(self) -> Completion:
        """The state of an iteration that is over. An error stays an error, and a part of a text is not a result."""
        if self._error is not None:
            raise self._error
        if self.started is None or self.finished is None:
            self._fail(Cancelled(grpc.StatusCode.CANCELLED, "the generation was closed before its end"))
        assert self.started is not None and self.finished is not None
        return Completion(
            "".join(chunk.text for chunk in self._chunks),
            tuple(token for chunk in self._chunks for token in chunk.tokens),
            tuple(logprob for chunk in self._chunks for logprob in chunk.logprobs),
            self.evictions,
            self.started,
            self.finished,
        )


class Generation(Progress, Iterator[Chunk]):
    """The answer, piece by piece. Iterate in one thread. Any thread may call `cancel`.

    Ending it early - by leaving a `with` block, by `close`, or by dropping it - cancels the request, and the
    server takes its pages back within a step.

    If its worker is lost, another one resumes it, and the pieces continue as if nothing had happened. There are two
    exceptions. Log-probabilities that were lost with the worker are NaN, and some figures of `finished` count from the
    resumption. A generation that reports evictions is not resumed, because some reports might be lost.
    """

    def __init__(self, workers: Workers, request: Any, timeout: float | None) -> None:
        super().__init__(workers, request, timeout)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._start()

    def _start(self) -> None:
        stub = self._server.stub()
        call = stub.Generate(self._request, timeout=self._deadline.left())
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
