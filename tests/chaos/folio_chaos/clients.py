"""Clients that ask again and again: some by the Python SDK, and some by gRPC alone, which resume by hand."""

import random
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import folio
import grpc
from folio.server import is_loss, never_connected
from folio_chaos.bounds import KEEPALIVE, REQUEST, RESUME
from folio_chaos.cases import Case
from folio_chaos.daemons import CHANNEL
from streams import Stream
from stubs import inference_pb2_grpc

PAUSE = 0.1  # between two attempts to resume


@dataclass
class Answer:
    """The end of one request: `status` is OK or the name of a gRPC status, `longest_wait` the longest time in seconds before a
    token, and `again` the parts of its prompt that were computed after tokens had come, as far as the client can see that."""

    client: str
    case: Case
    status: str = "OK"
    words: str = ""
    tokens: list[int] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    longest_wait: float = 0.0
    sequence: int = 0
    again: int = 0
    last: float = field(default_factory=time.monotonic)

    def take(self, tokens):
        now = time.monotonic()
        self.longest_wait, self.last = max(self.longest_wait, now - self.last), now
        self.tokens += tokens

    def end(self, status="OK", words=""):
        now = time.monotonic()
        self.longest_wait, self.seconds = max(self.longest_wait, now - self.last), now - self.begun
        self.status, self.words = status, words
        return self


class SdkClient:
    """One `folio.Client` with the other workers of its node on standby."""

    def __init__(self, addresses, encryption=None):
        # A node without a standby has no worker for as long as one takes to start.
        self.client = folio.Client(
            addresses[0], standby=addresses[1:], resume=RESUME, keepalive=KEEPALIVE, retries=20, timeout=REQUEST, tls=encryption
        )

    def ask(self, name, case):
        answer = Answer(name, case)
        generation = self.client.generate(**case.arguments)
        try:
            for chunk in generation:
                answer.take(chunk.tokens)
            answer.end()
        except folio.FolioError as error:
            answer.end(error.status.name, str(error))
        answer.sequence = generation.started.sequence_id if generation.started else 0
        return answer

    def close(self):
        self.client.close()


class RawClient:
    """The protocol's own stubs, as a client in another language has them."""

    OPTIONS = [*CHANNEL, ("grpc.keepalive_time_ms", KEEPALIVE * 1000), ("grpc.http2.max_pings_without_data", 0),
               ("grpc.keepalive_timeout_ms", KEEPALIVE * 500), ("grpc.http2.ping_timeout_ms", KEEPALIVE * 500)]  # fmt: skip

    def __init__(self, addresses):
        self.addresses, self.channels = addresses, [None] * len(addresses)

    def generate(self, at, request, timeout):
        """A call to one of the workers."""
        if self.channels[at] is None:
            self.channels[at] = grpc.insecure_channel(self.addresses[at], options=self.OPTIONS)
        return inference_pb2_grpc.InferenceStub(self.channels[at]).Generate(request, timeout=max(timeout, 0))

    def ask(self, name, case, answer=None):
        """Asks again from the start while nothing has come, and resumes after that. `answer` may be read meanwhile."""
        answer, stream, request, at = answer or Answer(name, case), Stream(), case.request, 0
        lost, events = None, 0
        while True:
            left = answer.begun + REQUEST - time.monotonic()
            try:
                for event in self.generate(at, request, left):
                    waits = event.WhichOneof("event") == "prefill" and event.prefill.queue_position
                    lost, events = None, events + (not waits)
                    stream.take(event)
                    answer.again += event.WhichOneof("event") == "prefill" and not waits and bool(answer.tokens)
                    if event.chunk.tokens:
                        answer.take(event.chunk.tokens)
                answer.end() if stream.finished else answer.end("INTERNAL", "the stream ended without a result")
                break
            except grpc.RpcError as error:
                if never_connected(error):
                    self.channels[at].close()
                    self.channels[at] = None  # as the SDK does, because it connects again only while a call waits
                lost = lost or (time.monotonic(), error)
                if not is_loss(error) or not self.may_resume(stream, events, lost[0], left):
                    words = f"{lost[1].details()}; then: {error.details()}"
                    ended = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ABORTED)
                    status = lost[1].code() if error.code() in ended else error.code()
                    answer.end(status.name, words)
                    break
            time.sleep(PAUSE)
            at = (at + 1) % len(self.addresses)
            request = stream.resume() if events else case.request
        answer.sequence = stream.started.sequence_id if stream.started else 0
        return answer

    @staticmethod
    def may_resume(stream, events, lost, left):
        resumable = not events or (stream.started is not None and stream.started.resume_token)
        return resumable and time.monotonic() - lost < RESUME and left > PAUSE

    def close(self):
        for channel in filter(None, self.channels):
            channel.close()


class Crowd:
    """Clients with a thread each, which ask while the crowd is let in, and rest otherwise."""

    def __init__(self, seed, cases, clients, report, fail):
        """`clients` holds (name, client). In the clients' threads, `report` takes each Answer, and `fail` the words of a
        failure of ours."""
        self.cases, self.report, self.fail = cases, report, fail
        self.state = threading.Condition()
        self.inside, self.over, self.resting, self.rounds = False, False, 0, 0
        self.busy: dict[str, Any] = {}
        self.clients = [client for _, client in clients]
        self.threads = [
            threading.Thread(target=self.live, args=(name, client, random.Random(f"{name} {seed}")), daemon=True)
            for name, client in clients
        ]
        for thread in self.threads:
            thread.start()

    def live(self, name, client, chance):
        while True:
            with self.state:
                self.resting += 1
                self.state.notify_all()
                self.state.wait_for(lambda: self.inside or self.over)
                if self.over:
                    return
                self.resting -= 1
            case = chance.choice(self.cases)
            self.busy[name] = (case.name, time.monotonic())
            try:
                self.report(client.ask(name, case))
            except Exception:
                self.fail(f"{name}: {traceback.format_exc()}")
            del self.busy[name]

    def let_in(self):
        with self.state:
            self.inside = True
            self.state.notify_all()

    def send_out(self, timeout):
        """Returns when each client has the end of its request. Otherwise gives those that are late, as text."""
        with self.state:
            self.inside = False
            self.state.wait_for(lambda: self.resting == len(self.threads), timeout)
        now = time.monotonic()
        return [f"{name} waits for {case} since {now - since:.1f} s" for name, (case, since) in dict(self.busy).items()]

    def close(self):
        with self.state:
            self.over, self.inside = True, False
            self.state.notify_all()
        for client in self.clients:
            client.close()
        for thread in self.threads:
            thread.join(10)
