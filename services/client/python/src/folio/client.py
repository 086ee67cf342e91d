"""The client: text from a worker, facts from a manager."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from folio import checks, requests
from folio.generation import AsyncGeneration, Generation
from folio.inspection import Device, Explanation, Manager, Pool, SequenceInfo, SequenceTables
from folio.messages import read
from folio.policies import Policy
from folio.requests import ChatTurn
from folio.results import Eviction, Model, ScoreResult, Tokens
from folio.server import Server, Workers, check_address, default_address, never_connected
from folio.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc


class Client:
    """A client of one worker, and of its manager. Thread-safe, and calls run in parallel.

    `address` is the worker's, written "unix:/path" or "host:port". None takes $FOLIO_ADDRESS, or the socket where
    folio-worker listens by default. `manager` is the manager's, with $FOLIO_MANAGER_ADDRESS. `timeout` is the default
    of all calls in seconds, and None waits forever. A call that cannot have had an effect is tried again up to
    `retries` times. If a generation loses its worker, the client asks others for `resume` seconds to continue it. It
    asks the workers of the same manager at the addresses `standby`, and a new one at `address`. With 0 the loss ends
    the generation.

    Nothing is sent until the first call. Leaving the `with` block, or `close`, ends running calls. Errors are
    `folio.FolioError`s. Arguments that cannot be right raise a ValueError or TypeError that names them.

        >>> with Client() as client:
        ...     client.generate("1, 2, 3, 4, 5, 6,", max_tokens=9).text()
        ' 7, 8, 9...'
    """

    def __init__(
        self,
        address: str | None = None,
        manager: str | None = None,
        timeout: float | None = None,
        *,
        retries: int = 4,
        resume: float = 10.0,
        standby: Iterable[str] = (),
    ) -> None:
        self.address = check_address(
            "address", default_address("FOLIO_ADDRESS", "worker.sock") if address is None else address
        )
        self.manager_address = check_address(
            "manager", default_address("FOLIO_MANAGER_ADDRESS", "manager.sock") if manager is None else manager
        )
        self._timeout = checks.timeout(timeout)
        retries = checks.integer("retries", retries)
        self._worker = Server("worker", self.address, inference_pb2_grpc.InferenceStub, retries)
        others = [check_address(f"standby[{at}]", one) for at, one in enumerate(standby)]
        servers = [Server("worker", one, inference_pb2_grpc.InferenceStub, retries) for one in others]
        self._workers = Workers((self._worker, *servers), checks.real("resume", resume))
        self._manager = Server("manager", self.manager_address, admin_pb2_grpc.AdminStub, retries)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Ends all calls and connections, except those of an event loop, which end together with the loop."""
        for server in (*self._workers.servers, self._manager):
            server.close()

    async def aclose(self) -> None:
        """As `close`, and also ends the connection of the running event loop."""
        self._manager.close()
        for server in self._workers.servers:
            await server.aclose()

    def _seconds(self, timeout: float | None) -> float | None:
        return self._timeout if timeout is None else checks.timeout(timeout)

    def generate(
        self,
        prompt: str | None = None,
        *,
        tokens: Iterable[int] | None = None,
        chat: Iterable[ChatTurn] | None = None,
        policy: Policy | str | None = None,
        budget: int | float | None = None,
        sink_tokens: int | None = None,
        recent_tokens: int | None = None,
        eviction_mode: str | None = None,
        schedule: str | None = None,
        layer_budgets: Sequence[int] | None = None,
        max_tokens: int | None = None,
        stop: str | Iterable[str] = (),
        ignore_eos: bool = False,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float | None = None,
        min_p: float = 0.0,
        seed: int | None = None,
        logprobs: int | None = None,
        report_evictions: bool = False,
        label: str = "",
        timeout: float | None = None,
    ) -> Generation:
        """Continues a prompt (text, token ids, or a chat in the model's template), piece by piece.

        policy           chooses what leaves the cache (`folio.PagedEviction()` ..., or a text form).
                         With None nothing leaves it.
        budget           resident tokens per layer (a multiple of the page size), or a float in (0, 1] as the
                         share of the prompt.
        sink_tokens, recent_tokens   are never evicted, inside the budget. None is one page each.
        eviction_mode    is "pipelined" (None), or "synchronous" for results that repeat to the token.
        schedule         spreads the budget over the layers, "uniform" (None) or "pyramid".
        layer_budgets    gives each layer a budget, instead of `budget`.
        max_tokens       is the most new tokens. None is 256, or the rest of the context.
        stop             ends the text before the first of these strings.
        temperature, top_k, top_p, min_p, seed   choose tokens. Temperature 0 always takes the likeliest.
        logprobs         adds log-probabilities of the chosen tokens (0) and of the n likeliest ones (n).
        report_evictions collects the evictions of each plan in `Generation.evictions`.
        label            is shown to operators beside the sequence.
        timeout          limits the whole call in seconds. None is the client's.
        """
        request = requests.generate_message(
            requests.input_message({"prompt": prompt, "tokens": tokens, "chat": chat}),
            requests.cache_message(
                policy, budget, sink_tokens, recent_tokens, eviction_mode, schedule, layer_budgets
            ),
            requests.sampling_message(temperature, top_k, top_p, min_p, seed),
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            logprobs=logprobs,
            report_evictions=report_evictions,
            label=label,
        )
        return Generation(self._workers, request, self._seconds(timeout))

    def agenerate(
        self,
        prompt: str | None = None,
        *,
        tokens: Iterable[int] | None = None,
        chat: Iterable[ChatTurn] | None = None,
        policy: Policy | str | None = None,
        budget: int | float | None = None,
        sink_tokens: int | None = None,
        recent_tokens: int | None = None,
        eviction_mode: str | None = None,
        schedule: str | None = None,
        layer_budgets: Sequence[int] | None = None,
        max_tokens: int | None = None,
        stop: str | Iterable[str] = (),
        ignore_eos: bool = False,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float | None = None,
        min_p: float = 0.0,
        seed: int | None = None,
        logprobs: int | None = None,
        report_evictions: bool = False,
        label: str = "",
        timeout: float | None = None,
    ) -> AsyncGeneration:
        """As `generate`, for the running event loop. Iterate with `async for`, or await `text` or `result`."""
        request = requests.generate_message(
            requests.input_message({"prompt": prompt, "tokens": tokens, "chat": chat}),
            requests.cache_message(
                policy, budget, sink_tokens, recent_tokens, eviction_mode, schedule, layer_budgets
            ),
            requests.sampling_message(temperature, top_k, top_p, min_p, seed),
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            logprobs=logprobs,
            report_evictions=report_evictions,
            label=label,
        )
        return AsyncGeneration(self._workers, request, self._seconds(timeout))

    def score(
        self,
        prompt: str | None = None,
        *,
        tokens: Iterable[int] | None = None,
        chat: Iterable[ChatTurn] | None = None,
        continuation: str | None = None,
        continuation_tokens: Iterable[int] | None = None,
        policy: Policy | str | None = None,
        budget: int | float | None = None,
        sink_tokens: int | None = None,
        recent_tokens: int | None = None,
        eviction_mode: str | None = None,
        schedule: str | None = None,
        layer_budgets: Sequence[int] | None = None,
        top_logprobs: int = 0,
        report_evictions: bool = False,
        label: str = "",
        timeout: float | None = None,
    ) -> ScoreResult:
        """Log-probabilities of a given continuation, fed token by token with the same compaction and evictions
        as `generate`. `top_logprobs` adds that many of the likeliest tokens at each place."""
        request = requests.score_message(
            requests.input_message({"prompt": prompt, "tokens": tokens, "chat": chat}),
            requests.input_message(
                {"continuation": continuation, "continuation_tokens": continuation_tokens},
                text="continuation",
                tokens="continuation_tokens",
            ),
            requests.cache_message(
                policy, budget, sink_tokens, recent_tokens, eviction_mode, schedule, layer_budgets
            ),
            top_logprobs=top_logprobs,
            report_evictions=report_evictions,
            label=label,
        )
        answer = self._worker.call("Score", request, self._seconds(timeout), never_connected)
        evictions: tuple[Eviction, ...] = tuple(read(event) for event in answer.evictions)
        return ScoreResult(
            tuple(one.token for one in answer.tokens),
            tuple(one.logprob for one in answer.tokens),
            tuple(tuple(read(rival) for rival in one.top) for one in answer.tokens) if top_logprobs else (),
            read(answer.usage),
            read(answer.cache),
            evictions,
        )

    def tokenize(
        self, text: str | None = None, *, chat: Iterable[ChatTurn] | None = None, timeout: float | None = None
    ) -> Tokens:
        """The token ids of a text, or of a chat in the model's template."""
        source = requests.input_message({"text": text, "chat": chat}, text="text")
        request = inference_pb2.TokenizeRequest(input=source)
        answer = self._worker.call("Tokenize", request, self._seconds(timeout))
        return Tokens(answer.ids, answer.pieces, answer.text if text is None else text)

    def detokenize(self, ids: Iterable[int], *, skip_special: bool = False, timeout: float | None = None) -> str:
        """The text of token ids, in which bytes that are not UTF-8 become U+FFFD."""
        request = inference_pb2.DetokenizeRequest(
            ids=checks.integers("ids", ids, empty=True), skip_special=checks.flag("skip_special", skip_special)
        )
        return str(self._worker.call("Detokenize", request, self._seconds(timeout)).text)

    def model(self, *, timeout: float | None = None) -> Model:
        """The model that the worker serves."""
        model: Model = read(self._worker.call("GetModel", inference_pb2.GetModelRequest(), self._seconds(timeout)))
        return model

    def manager(self, *, timeout: float | None = None) -> Manager:
        """The manager's process: its build, its process id and for how long it has served."""
        manager: Manager = read(self._manager.call("GetManager", admin_pb2.GetManagerRequest(), self._seconds(timeout)))
        return manager

    def pools(self, *, timeout: float | None = None) -> tuple[Pool, ...]:
        """The manager's pools. There is one, or none until the first worker has attached."""
        answer = self._manager.call("ListPools", admin_pb2.ListPoolsRequest(), self._seconds(timeout))
        return tuple(read(pool) for pool in answer.pools)

    def devices(self, *, timeout: float | None = None) -> tuple[Device, ...]:
        """The GPUs whose memory holds the manager's pages. Empty if the pages are in host memory."""
        answer = self._manager.call("ListPools", admin_pb2.ListPoolsRequest(), self._seconds(timeout))
        return tuple(read(device) for device in answer.devices)

    def sequences(self, *, timeout: float | None = None) -> tuple[SequenceInfo, ...]:
        """The sequences that are open, by id."""
        answer = self._manager.call("ListSequences", admin_pb2.ListSequencesRequest(), self._seconds(timeout))
        return tuple(read(sequence) for sequence in answer.sequences)

    def sequence(self, sequence_id: int, *, timeout: float | None = None) -> SequenceTables:
        """One sequence, layer by layer. Raises `NotFound` if it is not open."""
        request = requests.sequence_message(sequence_id)
        tables: SequenceTables = read(self._manager.call("GetSequence", request, self._seconds(timeout)))
        return tables

    def explain(
        self,
        sequence_id: int,
        policy: Policy | str | None = None,
        budget: int | float | None = None,
        *,
        sink_tokens: int | None = None,
        recent_tokens: int | None = None,
        schedule: str | None = None,
        layer_budgets: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Explanation:
        """A dry run of a decision, which lists what would leave the cache now, with scores. Without cache
        arguments it is the decision of the sequence's own policy."""
        cache = requests.cache_message(
            policy, budget, sink_tokens, recent_tokens, schedule=schedule, layer_budgets=layer_budgets
        )
        request = requests.explain_message(sequence_id, cache)
        found: Explanation = read(self._manager.call("ExplainEviction", request, self._seconds(timeout)))
        return found
