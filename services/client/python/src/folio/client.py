"""The client: text from a worker, facts from a manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from folio import checks, requests
from folio.chats import ChatTurn, chat_arguments
from folio.encryption import Tls, check_tls
from folio.generation import AsyncGeneration, Generation
from folio.identity import check_token, check_ways
from folio.managing import ManagerCalls
from folio.messages import read
from folio.requests import CacheArguments, GenerateArguments
from folio.results import Eviction, Model, ScoreResult, Tokens
from folio.sampling import sampling_message
from folio.server import Server, Workers, check_address, default_address, never_connected
from folio.steering import SteeringCalls
from folio.v1 import admin_pb2_grpc, inference_pb2, inference_pb2_grpc

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing from Python 3.11 on


class Client(ManagerCalls, SteeringCalls):
    """A client of one worker, and of its manager. Thread-safe, and calls run in parallel.

    `address` is the worker's, written "unix:/path" or "host:port". None takes $FOLIO_ADDRESS, or the socket where
    folio-worker listens by default. `manager` is the manager's, with $FOLIO_MANAGER_ADDRESS, and one of its
    --admin_listen if it has that flag. `timeout` is the default of all calls in seconds, and None waits forever. A
    call that cannot have had an effect is tried again up to `retries` times. If a generation loses its worker, others
    are asked for `resume` seconds (0: none) to continue it, or to begin it if nothing had come: those at `standby`,
    which have the same manager, and a new one at `address`. With `replay` they compute it again if the sequence is gone,
    for example with its manager. If the worker hangs this needs some seconds more than --lease_ttl and
    --kill_fenced_after of the manager (10 each). A server is lost if it leaves a ping unanswered, which a running call
    sends every `keepalive` seconds (0: never). `tls` encrypts the connections by TCP. With None
    $FOLIO_TLS and its like say whether (`folio.Tls.from_environment`), and without these connections are plain. `token`
    tells servers with --access who calls. None takes $FOLIO_TOKEN, or the file $FOLIO_TOKEN_FILE. It is sent over TLS, Unix
    sockets and loopback, and any other address raises a ValueError.

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
        resume: float = 30.0,
        replay: bool = True,
        standby: Iterable[str] = (),
        keepalive: float = 10.0,
        tls: Tls | None = None,
        token: str | None = None,
    ) -> None:
        self.address = check_address(
            "address", default_address("FOLIO_ADDRESS", "worker.sock") if address is None else address
        )
        self.manager_address = check_address(
            "manager", default_address("FOLIO_MANAGER_ADDRESS", "manager.sock") if manager is None else manager
        )
        self._timeout = checks.timeout(timeout)
        self.tls = check_tls(tls)
        own = check_token(token)
        rules = (checks.integer("retries", retries), checks.keepalive(keepalive), self.tls, own)
        addresses = [self.address, *(check_address(f"standby[{at}]", one) for at, one in enumerate(standby))]
        check_ways(own, self.tls is not None, [*addresses, self.manager_address])
        servers = tuple(Server("worker", one, inference_pb2_grpc.InferenceStub, *rules) for one in addresses)
        self._worker = servers[0]
        self._workers = Workers(servers, checks.real("resume", resume), checks.flag("replay", replay))
        self._manager = Server("manager", self.manager_address, admin_pb2_grpc.AdminStub, *rules)

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
        tools: Iterable[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
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
        priority: int = 0,
        tenant: str = "",
        timeout: float | None = None,
        **others: Unpack[GenerateArguments],
    ) -> Generation:
        """Continues a prompt (text, token ids, or a chat in the model's template), piece by piece.

        policy           chooses what leaves the cache (`folio.PagedEviction()`, or a text form). With None nothing does.
        budget           resident tokens per layer (whole pages), or a float in (0, 1] as the share of the prompt.
        sink_tokens, recent_tokens   are never evicted, inside the budget. None is one page each.
        eviction_mode    is "pipelined" (None), or "synchronous" for results that repeat to the token.
        schedule         spreads the budget over the layers, "uniform" (None) or "pyramid".
        layer_budgets    gives each layer a budget, instead of `budget`.
        compaction       of a prompt over its budget, "whole" at its end, or "streamed" also during prefill, so that
                         the cache never holds more than budget and stride. None is "whole" where the pool has room.
        compaction_stride   is the prompt tokens between two streamed compactions. None is 512.
        layers           choose "per_layer" (None), or "shared": once for all layers, by the mean of their rankings.
        prompt_share     of the budget, that generation leaves to the prompt. At most 0.9. None is 0 (QueryDiff: 0.4).
        protect_ends     of the budget, that stays at each end of the prompt. At most 0.4, None is 0.
        segments         of the text, that keep a part of their tokens each. At most 64, None is 1.
        tools, template_arguments   are for a chat's template: tools as OpenAI's API has them, and further values.
        max_tokens       is the most new tokens. None is 256, or the rest of the context.
        stop             ends the text before the first of these strings.
        temperature, top_k, top_p, min_p, seed   choose tokens. Temperature 0 always takes the likeliest.
        presence_penalty, frequency_penalty   lower tokens that the answer has, from -2 to 2: once, or each time.
        repetition_penalty   divides logits of tokens that prompt or answer have. None is 1, which is off.
        logit_bias       is added to the logits of its tokens, from -100 (which excludes a token) to 100.
        min_tokens, stop_token_ids   come before the answer may end, and end it beside the end of text.
        json_schema, regex, grammar   give the answer its form (one of them).
        logprobs         adds log-probabilities of the chosen tokens (0) and of the n likeliest ones (n).
        report_evictions collects the evictions of each plan in `Generation.evictions`.
        label, priority  are shown to operators, and say who comes first where requests wait (-100) and last (100).
        tenant           names the party that asks. Tenants take turns when requests wait.
        timeout          limits the whole call in seconds. None is the client's.
        """
        cache, rules = requests.split("generate", others)
        request = requests.generate_message(
            requests.prompt_message(prompt, tokens, chat, tools, template_arguments),
            cache,
            sampling_message(temperature, top_k, top_p, min_p, seed),
            rules,
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            logprobs=logprobs,
            report_evictions=report_evictions,
            label=label,
            priority=priority,
            tenant=tenant,
        )
        return Generation(self._workers, request, self._seconds(timeout))

    def agenerate(
        self,
        prompt: str | None = None,
        *,
        tokens: Iterable[int] | None = None,
        chat: Iterable[ChatTurn] | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
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
        priority: int = 0,
        tenant: str = "",
        timeout: float | None = None,
        **others: Unpack[GenerateArguments],
    ) -> AsyncGeneration:
        """As `generate`, for the running event loop. Iterate with `async for`, or await `text` or `result`."""
        cache, rules = requests.split("agenerate", others)
        request = requests.generate_message(
            requests.prompt_message(prompt, tokens, chat, tools, template_arguments),
            cache,
            sampling_message(temperature, top_k, top_p, min_p, seed),
            rules,
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            logprobs=logprobs,
            report_evictions=report_evictions,
            label=label,
            priority=priority,
            tenant=tenant,
        )
        return AsyncGeneration(self._workers, request, self._seconds(timeout))

    def score(
        self,
        prompt: str | None = None,
        *,
        tokens: Iterable[int] | None = None,
        chat: Iterable[ChatTurn] | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        continuation: str | None = None,
        continuation_tokens: Iterable[int] | None = None,
        top_logprobs: int = 0,
        report_evictions: bool = False,
        label: str = "",
        priority: int = 0,
        tenant: str = "",
        timeout: float | None = None,
        **cache: Unpack[CacheArguments],
    ) -> ScoreResult:
        """Log-probabilities of a given continuation, fed token by token with the same compaction and evictions
        as `generate`. `top_logprobs` adds that many of the likeliest tokens at each place."""
        request = requests.score_message(
            requests.input_message(
                {"prompt": prompt, "tokens": tokens, "chat": chat}, chat_arguments(tools, template_arguments)
            ),
            requests.input_message(
                {"continuation": continuation, "continuation_tokens": continuation_tokens},
                text="continuation",
                tokens="continuation_tokens",
            ),
            requests.cache_of("score", cache),
            top_logprobs=top_logprobs,
            report_evictions=report_evictions,
            label=label,
            priority=priority,
            tenant=tenant,
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
        self,
        text: str | None = None,
        *,
        chat: Iterable[ChatTurn] | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Tokens:
        """The token ids of a text, or of a chat in the model's template."""
        more = chat_arguments(tools, template_arguments)
        source = requests.input_message({"text": text, "chat": chat}, more, text="text")
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
