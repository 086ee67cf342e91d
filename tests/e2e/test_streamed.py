"""Prompts that are compacted while they are prefilled: any chunks and neighbours give the same, and any length fits."""

import contextlib
import json

import folio
import grpc
import pytest
from node import Node, cache, side_by_side, tokens, write_model
from oracle_cases import CASES
from streams import Stream, go_on, kill, refused
from stubs import inference_pb2, types_pb2

PROSE = next(case.prompt for case in CASES if case.name == "long_prose")
WHOLE, STREAMED = types_pb2.COMPACTION_WHOLE, types_pb2.COMPACTION_STREAMED
POLICIES = (
    "paged_eviction", "inverse_key_norm", "value_norm", "key_diff", "streaming_llm", "random", "query_diff", "kv_crush"
)  # fmt: skip


def asking(prompt, options, most=24, **more):
    return inference_pb2.GenerateRequest(
        input=tokens(prompt), cache=options, max_tokens=most, ignore_eos=True, logprobs=1, report_evictions=True, **more
    )


class Answer:
    """All that a call of Generate says."""

    def __init__(self, events):
        events = list(events)
        self.started = next(event.started for event in events if event.HasField("started"))
        self.evictions = [event.eviction.SerializeToString() for event in events if event.HasField("eviction")]
        self.stops = [event.eviction.prompt_tokens for event in events if event.eviction.step == -1]
        self.tokens = [token for event in events for token in event.chunk.tokens]
        self.logprobs = [one.logprob for event in events for one in event.chunk.logprobs]
        self.cache = events[-1].finished.cache

    def said(self):
        return self.tokens, self.logprobs, self.evictions, self.cache.peak_resident_tokens


def ask(stub, *arguments, **more):
    return Answer(stub.Generate(asking(*arguments, **more), timeout=600))


def seeded(policy):
    options = cache(policy, 128, stride=96)
    if policy == "random":
        options.policy.random.seed = 5
    return options


@pytest.fixture(scope="module")
def chunked():
    """Workers whose chunks end before, at and behind the stops."""
    with Node() as node:
        flags = {size: [f"--prefill_chunk={size}", "--prefill_chunk_beside_decodes=64"] for size in (64, 200, 512)}
        node.stubs = {size: node.start_worker(f"worker{size}", flags=some) for size, some in flags.items()}
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture(scope="module")
def alone(chunked):
    """Policy -> what the worker with the largest chunks says to it alone."""
    return {policy: ask(chunked.stubs[512], PROSE[:500], seeded(policy)) for policy in POLICIES}


@pytest.mark.parametrize("size", [pytest.param(64, marks=pytest.mark.long), 200])
def test_chunks_do_not_matter(chunked, alone, size):
    for policy in POLICIES:
        answer = ask(chunked.stubs[size], PROSE[:500], seeded(policy))
        assert answer.stops == [192, 288, 384, 480, 500], policy
        assert answer.said() == alone[policy].said(), policy
        assert answer.cache.peak_resident_tokens == 128 + 96 and len(answer.tokens) == 24
    assert len({str(one.said()) for one in alone.values()}) == len(POLICIES), "each policy chooses by itself"


def test_neighbours_do_not_matter(chunked, alone):
    """All at once, so that prompts share steps and decodes shorten the chunks."""
    calls = [lambda policy=policy: ask(chunked.stubs[200], PROSE[:500], seeded(policy)) for policy in POLICIES]
    for policy, answer in zip(POLICIES, side_by_side(*calls), strict=True):
        assert answer.said() == alone[policy].said(), policy


def test_nothing_is_compacted_that_fits(chunked):
    """A stop without a layer over its budget has no plan, and a stride beyond the prompt is whole."""
    stub = chunked.stubs[512]
    small = ask(stub, PROSE[:200], cache("paged_eviction", 256, stride=64))
    assert small.stops == [] and small.said() == ask(stub, PROSE[:200], cache("full")).said()
    whole, beyond = cache("key_diff", 128), cache("key_diff", 128, stride=1024)
    whole.compaction = WHOLE
    once, streamed = ask(stub, PROSE[:500], whole), ask(stub, PROSE[:500], beyond)
    assert once.stops == streamed.stops == [500] and once.said() == streamed.said()
    assert once.cache.peak_resident_tokens == 500


def test_the_answer_says_how_it_was_done(chunked):
    stub = chunked.stubs[512]
    unsaid = ask(stub, PROSE[:300], cache("paged_eviction", 128)).started.cache
    assert unsaid.compaction == WHOLE, "the pool has room"
    options = cache("paged_eviction", 128)
    options.compaction = STREAMED
    streamed = ask(stub, PROSE[:300], options).started.cache
    assert (streamed.compaction, streamed.compaction_stride_tokens) == (STREAMED, 512)


def test_what_cannot_be_streamed_is_refused(chunked):
    crush = types_pb2.KvCrushPolicy()
    crush.snap_kv.SetInParent()
    over_snap_kv = cache("kv_crush", 128, stride=64)
    over_snap_kv.policy.CopyFrom(types_pb2.Policy(kv_crush=crush))
    for options in (cache("snap_kv", 128, stride=64), over_snap_kv):
        code, words = refused(chunked.stubs[512], asking(PROSE[:300], options))
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "compaction" in words and "snap_kv" in words
    code, words = refused(chunked.stubs[512], asking(PROSE[:300], cache("paged_eviction", 128, stride=40)))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "compaction_stride_tokens" in words and "40" in words


def test_the_sdk_and_folioctl_ask_for_it(bfloat16, folioctl):
    expected = ask(bfloat16.stub, PROSE[:400], cache("paged_eviction", 128, stride=128))
    with folio.Client(bfloat16.worker_address(), timeout=120) as client:
        got = client.generate(
            tokens=PROSE[:400], policy="paged_eviction", budget=128, compaction="streamed", compaction_stride=128,
            eviction_mode="synchronous", max_tokens=24, ignore_eos=True, report_evictions=True,
        ).result()  # fmt: skip
        assert list(got.tokens) == expected.tokens and got.started.cache.compaction == "streamed"
        assert [one.prompt_tokens for one in got.evictions if one.step == -1] == expected.stops == [256, 384, 400]
        text = client.detokenize(PROSE[:400])
    said = folioctl(
        "generate", text, "--policy", "paged_eviction", "--budget", 128, "--compaction", "streamed", "--compaction_stride", 128,
        "--mode", "synchronous", "--max_tokens", 24, "--ignore_eos", "--output", "json",
    )  # fmt: skip
    events = [json.loads(line) for line in said.splitlines()]
    (resolved,) = (event["started"]["cache"] for event in events if "started" in event)
    assert resolved["compaction"] == "COMPACTION_STREAMED" and resolved["compaction_stride_tokens"] == 128
    assert [token for event in events for token in event.get("chunk", {}).get("tokens", ())] == expected.tokens


@pytest.mark.parametrize("policy", ["paged_eviction", "query_diff"])
def test_a_streamed_prompt_goes_on_at_another_worker(policy):
    """Its worker is killed between two stops, and much of the prompt is left. The other one computes nothing again, and compacts
    at the same stops."""
    request = inference_pb2.GenerateRequest(
        input=tokens(PROSE), cache=cache(policy, 128, stride=256), max_tokens=24, ignore_eos=True
    )
    flags = ["--prefill_chunk=32", "--prefill_chunk_beside_decodes=32"]
    with Node(pool="256MiB") as node:
        first, second = (node.start_worker(name, flags=flags) for name in ("first", "second"))
        expected, stream = Stream(), Stream()
        expected.follow(second.Generate(request, timeout=120))
        assert expected.prefilled == -(-len(PROSE) // 32) and len(expected.tokens) == 24
        call = first.Generate(request, timeout=120)
        stream.follow(call, stop=lambda stream: stream.prefilled == (256 + 64) // 32)
        kill(node, "first")
        stream.follow(call)
        done, stream.prefilled = stream.prefilled, 0
        assert not stream.tokens
        go_on(second, stream)
        assert stream.tokens == expected.tokens and 0 < stream.prefilled <= expected.prefilled - done + 1
        assert stream.finished.cache.peak_resident_tokens <= 128 + 256
        node.assert_all_free()


LAYERS, BUDGET, POOL, LENGTH = 3, 1024, 2048, 100_000


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    """A tiny model of a long context."""
    return write_model(tmp_path_factory.mktemp("model") / "tiny", "llama", 1 << 17)


@contextlib.contextmanager
def pool_of_2048(model, **more):
    """A node whose pool holds 2,048 tokens in each layer."""
    with Node(pool="3MiB", **more) as node:
        node.stub = node.start_worker(model=model)
        pool = node.pool()
        assert pool.layout.num_layers == LAYERS and pool.total_pages * pool.layout.page_tokens == LAYERS * POOL
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture(scope="module")
def small_pool(long_model):
    with pool_of_2048(long_model) as node:
        yield node


def long_prompt(length):
    """Ids of the tiny vocabulary without a period."""
    return [(at * at // 7 + 31 * at) % 250 + 3 for at in range(length)]


def resident_tokens(node):
    """Of each layer of the sequences that are open. One may end while it is asked for."""
    try:
        return [layer.resident_tokens for one in node.sequences() for layer in node.sequence(one.sequence_id).layers]
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.NOT_FOUND, error
        return []


@pytest.mark.parametrize("policy", ["paged_eviction", "key_diff", "query_diff"])
def test_100000_tokens_in_a_pool_of_2048(small_pool, policy):
    """Nobody asks for streaming here: the pool is too small for anything else."""
    held, resident = [], []

    def watch(events):
        for event in events:
            if event.HasField("prefill") and event.prefill.done_tokens % 4096 == 0 and event.prefill.done_tokens:
                held.append(small_pool.pool().held_pages)
                resident.extend(resident_tokens(small_pool))
            yield event

    request = asking(long_prompt(LENGTH), cache(policy, BUDGET), most=32)
    answer = Answer(watch(small_pool.stub.Generate(request, timeout=600)))
    assert answer.started.cache.compaction == STREAMED and answer.started.cache.compaction_stride_tokens == 512
    assert len(answer.tokens) == 32 and answer.stops == [*range(1536, LENGTH, 512), LENGTH]
    assert answer.cache.peak_resident_tokens == BUDGET + 512
    assert len(held) > 10 and max(held) <= LAYERS * POOL // 16 and max(resident) <= BUDGET + 512
    small_pool.assert_all_free()


def test_what_needs_the_whole_prompt_is_refused_there(small_pool):
    whole = cache("paged_eviction", BUDGET)
    whole.compaction = WHOLE
    for options in (whole, cache("snap_kv", BUDGET), cache("full")):
        code, words = refused(small_pool.stub, asking(long_prompt(LENGTH), options))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "never fits" in words, (code, words)


def test_several_share_the_small_pool(small_pool):
    """Four prompts of 20,000 tokens take turns for the pages of one and a third, and say what each says alone."""
    prompts = [long_prompt(20_000 + 160 * at)[160 * at :] for at in range(4)]
    options = cache("paged_eviction", BUDGET)
    alone = [ask(small_pool.stub, prompt, options).tokens for prompt in prompts]
    together = side_by_side(*[lambda prompt=prompt: ask(small_pool.stub, prompt, options) for prompt in prompts])
    assert [answer.tokens for answer in together] == alone
    assert len({tuple(one) for one in alone}) > 1


def test_a_manager_may_stream_by_default(small_pool, long_model):
    """Two prompts of 1,500 tokens, which whole could only run one after the other, run at once."""
    prompt, options = long_prompt(1500), cache("paged_eviction", 256)
    assert ask(small_pool.stub, prompt, options).started.cache.compaction == WHOLE
    with pool_of_2048(long_model, manager_flags=["--default_compaction=streamed"]) as node:
        assert ask(node.stub, prompt, cache("snap_kv", 256)).started.cache.compaction == WHOLE
        calls = [node.stub.Generate(asking(prompt, options, most=100_000), timeout=600) for _ in range(2)]
        for call in calls:
            event = next(event for event in call if event.HasField("chunk"))
            assert event.chunk.tokens
        # The first one decodes for minutes.
        assert len(node.sequences()) == 2
        assert all(one.cache.compaction == STREAMED for one in node.sequences())
        for call in calls:
            call.cancel()
