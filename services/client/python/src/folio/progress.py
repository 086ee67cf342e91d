"""The events of a generation so far, and the choice of what to do when its worker is lost."""

from __future__ import annotations

import dataclasses
from typing import Any

import grpc

from folio.errors import Cancelled, FolioError, from_rpc, make_error
from folio.messages import read
from folio.results import Chunk, Completion, Eviction, Finished, Started
from folio.server import Deadline, Retries, Server, Workers, is_gone, is_loss, is_unavailable, never_connected
from folio.v1 import inference_pb2

# Seconds between two attempts to resume, and at first and at most between two attempts to begin.
RESUME_PAUSE = 0.1
LONGEST_PAUSE = 1.0

MAX_REPLAYS = 3


class Progress:
    """The events so far, which both kinds of generation share."""

    started: Started | None = None
    """Set when the request was admitted: sequence id, prompt tokens, cache options, seed. A replay has a new id."""
    queue_position: int | None = None
    """The place of a request that waits for room, 1 for the next. None before that is known and once it runs."""
    finished: Finished | None = None
    """Set at the end: reason, stop string, usage, and what the cache held and lost."""

    _call: Any = None
    _ended = _closed = _cancelled = False
    _error: FolioError | None = None

    def __init__(self, workers: Workers, request: Any, timeout: float | None) -> None:
        self._workers, self._at, self._request = workers, 0, request
        self._first_request = request if workers.replay else None
        self._server: Server = workers.servers[0]
        # The error that lost the worker, until something new comes, and until when another one is looked for.
        self._lost: grpc.RpcError | None = None
        self._until = Deadline(None)
        self._deadline = Deadline(timeout)
        self._retries = Retries(self._server.retries, self._deadline, never_connected)
        self._silent = True  # no event has come
        self._next_pause = RESUME_PAUSE
        # Whether the next attempt replays, or the one that was just made, and how many have begun.
        self._replaying, self._replays = False, 0
        self._chunks: list[Chunk] = []
        self._evictions: list[Eviction] = []

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """The evictions so far, with `report_evictions`."""
        return tuple(self._evictions)

    def _take(self, event: Any) -> Chunk | None:
        """Records an event, and returns it if it is a chunk."""
        kind = event.WhichOneof("event")
        if kind == "prefill" and event.prefill.queue_position:
            self.queue_position = event.prefill.queue_position
            return None
        self._silent = False
        self.queue_position = None
        if kind in ("chunk", "prefill"):
            self._lost = None
        if kind == "chunk":
            self._chunks.append(read(event.chunk))
            return self._chunks[-1]
        if kind == "started":
            self._take_started(read(event.started))
        elif kind == "eviction":
            self._evictions.append(read(event.eviction))
        elif kind == "finished":
            self.finished = dataclasses.replace(read(event.finished), replays=self._replays)
        return None

    def _take_started(self, started: Started) -> None:
        if self._replaying:
            if started.replayed_tokens != len(self._received()):
                self._call.cancel()
                older = "the worker is older than version 0.2 and knows no replays"
                details = f"{self._lost.details()}; not replayed: {older}" if self._lost else older
                self._fail(make_error(grpc.StatusCode.UNAVAILABLE, details, self._server.name))
            self._replaying, self._lost = False, None
            self._replays += 1
        self.started = started

    def _received(self) -> list[int]:
        return [token for chunk in self._chunks for token in chunk.tokens]

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
        if self._server.closed:
            self._fail(from_rpc(error, self._server.name), error)
        # Once an event has come, the same request would give the same text twice.
        pause = self._pause_to_begin(error) if self._silent else self._pause_to_resume(error)
        if pause is None:
            self._fail(self._lost_error(error), error)
        return pause

    def _pause_to_begin(self, error: grpc.RpcError) -> float | None:
        """As `_pause_after`, while no event has come. The next attempt sends the same request to the next worker."""
        pause: float | None = None
        if self._lost is None and never_connected(error):
            pause = self._retries.pause_after(error)  # by their number, as no worker was lost
        elif self._may_ask(error, self._next_pause):
            pause, self._next_pause = self._next_pause, min(2 * self._next_pause, LONGEST_PAUSE)
        if pause is not None:
            self._turn_to_next()
        return pause

    def _pause_to_resume(self, error: grpc.RpcError) -> float | None:
        """As `_pause_after`, for a lost worker. The next attempt asks another one to continue, or to compute a sequence
        that is gone again."""
        if self.started is None or not self.started.resume_token:
            return None
        # A worker cuts a client that does not read with CANCELLED, and what it closed is not computed for that client again.
        died = self._lost is not None and is_unavailable(self._lost)
        if self._replaying or (died and is_gone(error) and self._may_replay()):
            return self._pause_to_replay(error)
        if not self._may_ask(error, RESUME_PAUSE):
            return None
        self._turn_to_next()
        resume = inference_pb2.Resume(
            sequence_id=self.started.sequence_id,
            resume_token=self.started.resume_token,
            received_tokens=self._received(),
        )
        self._request = inference_pb2.GenerateRequest(resume=resume)
        return RESUME_PAUSE

    def _may_replay(self) -> bool:
        return self._first_request is not None and self._replays < MAX_REPLAYS

    def _pause_to_replay(self, error: grpc.RpcError) -> float | None:
        """As `_pause_after`. The next attempt sends the first request again, with the tokens that have come. It goes to the
        worker that has said that the sequence is gone, and so lives, and later ones go to each worker in turn."""
        if not self._replaying:
            self._next_pause = RESUME_PAUSE
            if not self._until.allows(self._next_pause) or not self._deadline.allows(self._next_pause):
                return None
        elif self._may_ask(error, self._next_pause):
            self._turn_to_next()
        else:
            return None
        self._replaying = True
        self._request = inference_pb2.GenerateRequest()
        self._request.CopyFrom(self._first_request)
        assert self.started is not None
        self._request.sampling.seed = self.started.seed
        self._request.replay.received_tokens.extend(self._received())
        self._request.replay.model_fingerprint = self.started.model_fingerprint
        pause, self._next_pause = self._next_pause, min(2 * self._next_pause, LONGEST_PAUSE)
        return pause

    def _may_ask(self, error: grpc.RpcError, pause: float) -> bool:
        """Whether there is time to ask another worker after this error and a pause."""
        # A replay that meets another model looks for a worker of its own.
        other_model = self._replaying and error.code() is grpc.StatusCode.FAILED_PRECONDITION
        if not is_loss(error) and not other_model:
            return False
        if self._lost is None:
            self._lost, self._until = error, Deadline(self._workers.resume)
        return self._until.allows(pause) and self._deadline.allows(pause)

    def _turn_to_next(self) -> None:
        self._at = (self._at + 1) % len(self._workers.servers)
        self._server = self._workers.servers[self._at]

    def _lost_error(self, error: grpc.RpcError) -> FolioError:
        """The last error, or the error that lost the worker if no other worker continued."""
        last = from_rpc(error, self._server.name)
        if self._silent or self._lost is None or self._lost is error or last.status == grpc.StatusCode.CANCELLED:
            return last
        details = f"{self._lost.details()}; not {'replayed' if self._replaying else 'resumed'}: {last.details}"
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
            tuple(self._received()),
            tuple(logprob for chunk in self._chunks for logprob in chunk.logprobs),
            self.evictions,
            self.started,
            self.finished,
        )
