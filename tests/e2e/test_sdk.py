"""The Python SDK against real processes: the same as the stubs give, and nothing is left behind."""

import asyncio
import doctest
import pkgutil

import folio
import pytest
from node import PATIENCE, Node, cache, side_by_side, tokens, wait_until
from oracle_cases import CASES
from stubs import ROOT, inference_pb2

PROSE = next(case.prompt for case in CASES if case.name == "long_prose")
ENDLESS = {"tokens": PROSE[:100], "max_tokens": 5000, "ignore_eos": True}
EVICTING = {"policy": folio.PagedEviction(), "budget": 128, "eviction_mode": "synchronous"}


@pytest.fixture
def client(nothing_lost):
    with folio.Client(nothing_lost.worker_address(), nothing_lost.manager_address, timeout=120) as client:
        yield client


def test_generate_gives_what_the_stub_gives(client, bfloat16):
    got = client.generate(
        tokens=PROSE[:300], **EVICTING, max_tokens=40, ignore_eos=True, logprobs=2, report_evictions=True, temperature=0.7, seed=5
    ).result()
    request = inference_pb2.GenerateRequest(
        input=tokens(PROSE[:300]), cache=cache("paged_eviction", 128), max_tokens=40, ignore_eos=True, logprobs=2,
        report_evictions=True, sampling={"temperature": 0.7, "seed": 5},
    )
    events = list(bfloat16.stub.Generate(request, timeout=120))
    assert got.text == "".join(event.chunk.text for event in events)
    assert list(got.tokens) == [token for event in events for token in event.chunk.tokens] and len(got.tokens) == 40
    assert [one.logprob for one in got.logprobs] == [one.logprob for event in events for one in event.chunk.logprobs]
    assert all(len(one.top) == 2 for one in got.logprobs)
    evictions = [event.eviction for event in events if event.HasField("eviction")]
    assert len(got.evictions) == len(evictions) >= 3 and got.evictions[0].step == -1
    for one, other in zip(got.evictions, evictions, strict=True):
        assert one.step == other.step
        assert [layer.kept for layer in one.layers] == [tuple(layer.kept) for layer in other.layers]
    assert got.finished.reason == "length" and got.finished.cache.evicted_pages > 0
    assert got.started.cache.policy == folio.PagedEviction() and got.started.cache.eviction_mode == "synchronous"


def test_score_gives_what_the_stub_and_generate_give(client, bfloat16):
    written = client.generate(tokens=PROSE[:300], **EVICTING, max_tokens=40, ignore_eos=True, logprobs=1).result()
    got = client.score(
        tokens=PROSE[:300], continuation_tokens=written.tokens, **EVICTING, top_logprobs=2, report_evictions=True
    )
    assert got.tokens == written.tokens
    assert got.logprobs == tuple(one.logprob for one in written.logprobs)
    assert [top[0].token for top in got.top] == list(written.tokens), "greedy takes the likeliest"
    request = inference_pb2.ScoreRequest(
        input=tokens(PROSE[:300]), continuation=tokens(written.tokens), cache=cache("paged_eviction", 128), top_logprobs=2,
        report_evictions=True,
    )
    expected = bfloat16.stub.Score(request, timeout=120)
    assert got.logprobs == tuple(one.logprob for one in expected.tokens)
    assert got.cache.evicted_pages == expected.cache.evicted_pages > 0 and len(got.evictions) == len(expected.evictions)
    text = client.score("The capital of France is", continuation=" Paris")
    assert len(text.logprobs) == 1 and text.logprobs[0] > -3 and text.top == ()


def test_tokenize_and_back(client):
    text = "Größe: 12 €\n日本"
    ids = client.tokenize(text)
    assert client.detokenize(ids) == text == b"".join(ids.pieces).decode() == ids.text
    chat = client.tokenize(chat=[{"role": "user", "content": "Hi"}])
    assert chat.text.endswith("<|im_start|>assistant\n") and chat == client.tokenize(chat.text)
    assert "<|im_start|>" not in client.detokenize(chat, skip_special=True)
    assert client.detokenize([]) == ""
    model = client.model()
    assert (model.layout.num_layers, model.vocab_size, model.eos_tokens) == (30, 49152, (2,))


def test_the_loop_gets_what_threads_get(client, bfloat16):
    prompts = [PROSE[at : at + 60] for at in range(4)]
    expected = side_by_side(
        *(lambda prompt=prompt: client.generate(tokens=prompt, max_tokens=24).result().tokens for prompt in prompts)
    )

    async def gather():
        async with folio.Client(bfloat16.worker_address(), timeout=120) as own:
            runs = (own.agenerate(tokens=prompt, max_tokens=24).result() for prompt in prompts)
            return [run.tokens for run in await asyncio.gather(*runs)]

    assert asyncio.run(gather()) == expected


def leave(client):
    for _ in client.generate(**ENDLESS):
        break


def cancel_it(client):
    generation = client.generate(**ENDLESS)
    next(generation)
    generation.cancel()
    with pytest.raises(folio.Cancelled):
        list(generation)


def run_out(client):
    with pytest.raises(folio.DeadlineExceeded):
        client.generate(**ENDLESS, timeout=1.0).text()


def cancel_task(client):
    async def run():
        generation = client.agenerate(**ENDLESS)
        await anext(generation)
        task = asyncio.create_task(generation.text())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize(
    "end, reasons",
    [(leave, ["cancelled"]), (cancel_it, ["cancelled"]), (run_out, ["deadline", "cancelled"]), (cancel_task, ["cancelled"])],
)
def test_ending_early_gives_the_pages_back(client, bfloat16, end, reasons):
    with bfloat16.closing(*reasons):
        end(client)


def test_what_the_manager_knows(client, bfloat16):
    with client.generate(**ENDLESS, policy="streaming_llm", budget=64, label="sdk") as generation:
        next(generation)
        info = wait_until(
            lambda: next((one for one in client.sequences() if one.state == "decode" and one.evicted_tokens), None),
            PATIENCE, "it decodes and its prompt is compacted",
        )  # fmt: skip
        assert (info.label, info.prompt_tokens, info.sequence_id) == ("sdk", 100, generation.started.sequence_id)
        assert info.cache.policy == folio.StreamingLlm() and info.cache.budget_tokens == 64
        tables = client.sequence(info.sequence_id)
        assert tables.layers[0].kept[0] == range(16), "the sink"
        assert all(layer.resident_tokens == sum(map(len, layer.kept)) for layer in tables.layers)
        (pool,) = client.pools()
        manager, later = client.manager(), client.manager()
        assert manager.pid == bfloat16.manager.pid and manager.build.startswith(folio.__version__)
        assert 0 < manager.uptime_ms <= later.uptime_ms and len(manager.boot_id) == 32 and manager.boot_id == later.boot_id
        assert pool.held_pages > 0 and pool.workers[0].pid == bfloat16.workers["worker"].pid
    with pytest.raises(folio.NotFound) as missing:
        client.sequence(2**64 - 1)
    assert str(2**64 - 1) in missing.value.details and bfloat16.manager_address in str(missing.value)


def test_a_client_that_came_first_meets_a_server_that_comes_later():
    with Node() as node:
        with folio.Client(node.worker_address("late"), retries=0) as early:
            with pytest.raises(folio.Unavailable):
                early.model()
            with pytest.raises(folio.Unavailable):
                early.generate("Once", max_tokens=1).text()
            node.launch_worker("late")

            def served():
                try:
                    return early.model().architecture == "llama"
                except folio.Unavailable:
                    return False

            wait_until(served, 2 * PATIENCE, "the early client meets the worker")
            assert early.generate("Once upon a", max_tokens=2).text()


def test_refusals_say_what_the_server_said(client, bfloat16):
    with pytest.raises(folio.InvalidArgument) as refused:
        client.generate("x", policy="paged_eviction", budget=100).text()
    assert "budget_tokens 100" in refused.value.details
    with pytest.raises(folio.InvalidArgument, match="continuation is 8000 tokens long"):
        client.score(tokens=PROSE, continuation_tokens=[5] * 8000)
    with folio.Client(bfloat16.manager_address) as confused, pytest.raises(folio.Unimplemented):
        confused.generate("x").text()


POLICIES = [
    # what is asked for, what is answered
    (folio.Full(), folio.Full()),
    (folio.PagedEviction(), folio.PagedEviction()),
    (folio.StreamingLlm(), folio.StreamingLlm()),
    (folio.InverseKeyNorm(), folio.InverseKeyNorm()),
    (folio.KeyDiff(), folio.KeyDiff()),
    (folio.SnapKv(), folio.SnapKv(window=64, pool=7)),
    (folio.SnapKv(window=32, pool=3), folio.SnapKv(window=32, pool=3)),
    (folio.QueryDiff(), folio.QueryDiff(None, 16, 15, 8, 0.6666667, 0.8333333)),
    (folio.QueryDiff(0.5, 8, 1, 0, 0.0, 1.0), folio.QueryDiff(share=0.5, window=8, pool=1, neighbours=0, judges_from=0.0, judges_to=1.0)),
    (folio.Random(), folio.Random(seed=3)),
    (folio.Random(seed=7), folio.Random(seed=7)),
    (folio.KvCrush(), folio.KvCrush(folio.PagedEviction(), 0.25, "mean")),
    (folio.KvCrush(folio.KeyDiff(), 0.5, "random", 9), folio.KvCrush(folio.KeyDiff(), 0.5, "random", 9)),
    (folio.KvCrush(folio.SnapKv(32), 0.125, "ones"), folio.KvCrush(folio.SnapKv(32, 7), 0.125, "ones")),
]


@pytest.mark.parametrize("asked, answered", POLICIES, ids=lambda one: str(one))
def test_every_policy_holds_its_budget(client, asked, answered):
    budget = None if asked == folio.Full() else 128
    arguments = {"policy": asked, "budget": budget, "max_tokens": 20, "ignore_eos": True, "seed": 3}
    got = client.generate(tokens=PROSE[:300], **arguments, eviction_mode="synchronous").result()
    assert got.started.cache.policy == answered
    assert len(got.tokens) == 20
    if budget:
        assert got.finished.cache.resident_tokens <= 128 + 16 and got.finished.cache.evicted_tokens >= 300 - 128
    else:
        assert got.finished.cache.evicted_tokens == 0


def test_budgets_as_shares_and_by_layer(client):
    half = client.generate(tokens=PROSE[:320], policy="paged_eviction", budget=0.5, max_tokens=1).result()
    assert half.started.cache.budget_tokens == 160
    pyramid = client.generate(
        tokens=PROSE[:320], policy="paged_eviction", budget=128, schedule="pyramid", max_tokens=2, report_evictions=True
    ).result()
    budgets = pyramid.started.cache.layer_budget_tokens
    assert len(budgets) == 30 and budgets[0] == 192 and budgets[-1] == 64 and sum(budgets) == 30 * 128
    assert tuple(len(layer.kept) for layer in pyramid.evictions[0].layers) == budgets
    own = client.generate(tokens=PROSE[:320], policy="paged_eviction", layer_budgets=budgets, max_tokens=2, report_evictions=True)
    assert own.result().evictions == pyramid.evictions
    with pytest.raises(folio.InvalidArgument, match="layer_budget_tokens"):
        client.generate(tokens=PROSE[:320], policy="paged_eviction", layer_budgets=budgets[1:]).text()


def test_explain_changes_nothing(client):
    request = {"policy": "paged_eviction", "budget": 512, "eviction_mode": "synchronous", "ignore_eos": True, "max_tokens": 400}
    alone = client.generate(tokens=PROSE[:200], **request).result()
    assert alone.finished.cache.plans > 1
    # Long before the first eviction it is explained.
    with client.generate(tokens=PROSE[:200], **request) as running:
        texts = [next(running).text for _ in range(5)]
        sequence_id = running.started.sequence_id
        own = client.explain(sequence_id)
        assert own.cache.budget_tokens == 512 and not own.due and len(own.layers) == 30
        smaller = client.explain(sequence_id, folio.PagedEviction(), 64)
        assert smaller.due and smaller.cache.budget_tokens == 64
        for layer in smaller.layers:
            assert sum(map(len, layer.drop_tokens)) == layer.resident_tokens - 64 and len(layer.scores) == layer.resident_tokens
        recent = client.explain(sequence_id, "streaming_llm", 64).layers[0]
        assert recent.drop_tokens == (range(16, 16 + recent.resident_tokens - 64),) and recent.scores == ()
        with pytest.raises(folio.FailedPrecondition):
            client.explain(sequence_id, folio.KeyDiff(), 64)
        texts += [chunk.text for chunk in running]
    assert "".join(texts) == alone.text
    wait_until(lambda: not client.sequences(), PATIENCE, "it is closed")
    with pytest.raises(folio.NotFound):
        client.explain(sequence_id)


@pytest.fixture
def by_default(nothing_lost, monkeypatch):
    """What examples find at the default addresses."""
    monkeypatch.setenv("FOLIO_ADDRESS", nothing_lost.worker_address())
    monkeypatch.setenv("FOLIO_MANAGER_ADDRESS", nothing_lost.manager_address)


FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_readmes_examples(by_default):
    readme = ROOT / "services/client/python/README.md"
    failed, tried = doctest.testfile(str(readme), module_relative=False, optionflags=FLAGS)
    assert tried >= 30 and not failed


def test_the_docstrings_examples(by_default):
    tried = 0
    for module in pkgutil.iter_modules(folio.__path__, "folio."):
        if not module.ispkg:
            results = doctest.testmod(__import__(module.name, fromlist=["x"]), optionflags=FLAGS)
            assert not results.failed, module.name
            tried += results.attempted
    assert tried >= 6
