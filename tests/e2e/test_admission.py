"""Optimistic admission: many sequences share a pool that could not hold all of them at their longest, and give their
pages back, unseen by their clients, when it runs dry."""

import concurrent.futures
import threading

import folio
import pytest
from metrics import ENDPOINT, asked
from node import PATIENCE, Node, cache, side_by_side, tokens, wait_until
from processes import stopped
from streams import Stream, all_alone, alone, outlive
from stubs import admin_pb2, inference_pb2, types_pb2


def asking(first=1000, prompt=20, length=20, **settings):
    return inference_pb2.GenerateRequest(
        input=tokens(range(first, first + prompt)), max_tokens=length, ignore_eos=True, **settings)  # fmt: skip


def generated(stub, request):
    stream = Stream()
    stream.follow(stub.Generate(request, timeout=240))
    assert stream.finished is not None
    return stream.tokens


def answers(stub, ranks=1):
    """To REQUESTS, of each as if it had the pool for itself."""
    streams = all_alone(REQUESTS) if ranks == 1 else [alone(stub, request, ranks) for request in REQUESTS]
    return [stream.tokens for stream in streams]


def parked(node):
    return [one for one in node.sequences() if one.state == admin_pb2.SEQUENCE_STATE_PARKED]


@pytest.fixture
def node():
    """Its pool holds some 1,090 tokens."""
    with Node(pool="24MiB") as node:
        yield node
        node.assert_alive()
        node.assert_all_free()


class MostHeld:
    """The largest share of the pool that was held while the block ran."""

    def __init__(self, node):
        self.node, self.share, self.ended = node, 0.0, threading.Event()

    def watch(self):
        while not self.ended.wait(0.005):
            pool = self.node.pool()
            self.share = max(self.share, pool.held_pages / pool.total_pages)

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def test_clients_that_ask_for_more_than_they_need_run_together():
    # The lease is longer than the manager stands still.
    with Node(pool="24MiB", lease="60s") as node:
        run_together(node)
        node.assert_alive()
        node.assert_all_free()


def run_together(node):
    stub = node.start_worker(flags=ENDPOINT)
    message = inference_pb2.ChatMessage(role="user", content="Answer in one word: what is the capital of France?")
    request = inference_pb2.GenerateRequest(
        input=inference_pb2.Input(chat=inference_pb2.Chat(messages=[message])),
        max_tokens=1000,
        sampling=types_pb2.SamplingParams(temperature=0),
    )
    # The manager stands still until all have asked, so that none ends before another one begins.
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        with stopped(node.manager.pid):
            running = [threads.submit(generated, stub, request) for _ in range(16)]
            wait_until(lambda: asked(node.workers["worker"]) == 16, PATIENCE / 2, "all have asked")
        with MostHeld(node) as most:
            answers = [one.result() for one in running]
    assert len(answers) == 16 and len({tuple(ids) for ids in answers}) == 1 and answers[0]
    assert most.share >= 0.6  # by their worst cases, one at a time would run, in a sixteenth of the pool


def settings_of(policy):
    if policy == "full":
        return {"cache": cache()}
    return {"cache": cache(policy, 128), "sampling": types_pb2.SamplingParams(temperature=0.8, seed=5)}


REQUESTS = [
    asking(1000 + 100 * i, prompt=30 + 20 * i, length=230, **settings_of(policy))
    for i, policy in enumerate(["full", "full", "paged_eviction", "full", "query_diff", "full", "key_diff"])
]


def test_answers_do_not_show_that_pages_were_given_back(node):
    stub = node.start_worker()
    expected = answers(stub)
    assert "asked back" not in node.manager.words() and not node.events("sequence_parked")
    together = side_by_side(*[lambda request=request: generated(stub, request) for request in REQUESTS])
    assert together == expected
    assert node.events("sequence_parked")
    node.manager.says("sequence asked back")


def test_reservation_never_asks_pages_back():
    with Node(pool="24MiB", manager_flags=["--admission=reserve"]) as node:
        stub = node.start_worker()
        expected = answers(stub)[:4]
        together = side_by_side(*[lambda request=request: generated(stub, request) for request in REQUESTS[:4]])
        assert together == expected and "asked back" not in node.manager.words()
        node.assert_all_free()


def test_a_prompt_holds_the_pages_of_its_next_chunks_only(node):
    stub = node.start_worker(flags=["--prefill_chunk=64"])
    call = stub.Generate(asking(prompt=1000, length=20), timeout=120)
    first = next(event for event in call if event.HasField("started"))
    with stopped(node.workers["worker"].pid):  # while it is at the prompt
        pool, sequence = node.pool(), node.sequence(first.started.sequence_id).sequence
    per_layer = sequence.held_pages / pool.layout.num_layers
    assert per_layer * pool.layout.page_tokens <= sequence.logical_length + 2 * 64 + pool.layout.page_tokens
    assert sequence.held_pages + sequence.reserved_pages == pool.layout.num_layers * 64  # its prompt, and one ahead
    assert len([token for event in call for token in event.chunk.tokens]) == 20


def test_a_small_request_does_not_pass_a_large_one_of_another_worker():
    # It holds some 2,180 tokens.
    with Node(pool="48MiB") as node:
        one, other = node.start_worker("one"), node.start_worker("other")
        holder = one.Generate(asking(prompt=500, length=1500), timeout=240)
        assert next(holder).HasField("started")

        def opened():
            return [event.label for event in node.events("sequence_opened")][1:]

        with concurrent.futures.ThreadPoolExecutor(5) as threads:
            large = threads.submit(generated, one, asking(3000, prompt=1750, length=20, label="large"))
            wait_until(lambda: node.events("sequence_waiting"), PATIENCE, "the large one waits")
            small = [threads.submit(generated, other, asking(2000 + i, prompt=30, label="small")) for i in range(3)]
            wait_until(lambda: next(holder).HasField("chunk"), PATIENCE, "the holder decodes")
            for _ in range(40):
                next(holder)
            assert not opened()  # although there is room for the small ones
            holder.cancel()
            for call in (large, *small):
                call.result()
        assert opened() == ["large", "small", "small", "small"]
        node.assert_alive()
        node.assert_all_free()


def test_a_parked_sequence_outlives_its_worker(node):
    first, second = node.start_worker("first"), node.start_worker("second", flags=ENDPOINT)
    requests = [asking(1000 + 100 * i, prompt=40, length=500) for i in range(3)]
    computed = outlive(node, first, second, "first", requests, when=lambda: parked(node))
    assert computed >= 40  # the prompt of the parked one


@pytest.mark.long
def test_the_priority_of_a_request_decides_who_gives_way(node):
    node.start_worker()

    def run(name, priority, prompt):
        with folio.Client(node.worker_address()) as client:
            client.generate(
                tokens=range(1000, 1000 + prompt), max_tokens=600, ignore_eos=True, priority=priority, label=name
            ).text()

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        low = threads.submit(run, "low", 1, 40)
        wait_until(lambda: any(one.logical_length > 40 for one in node.sequences()), PATIENCE, "the first one decodes")
        # Its prompt fills the pool soon, long before the first one ends.
        high = threads.submit(run, "high", 0, 400)
        low.result(), high.result()
    # The manager may carry out the end of a sequence after the client has its answer.
    wait_until(lambda: not node.sequences(), PATIENCE, "both are closed")
    names = {event.sequence_id: event.label for event in node.events("sequence_opened")}
    assert [names[event.sequence_id] for event in node.events("sequence_closed")] == ["high", "low"]
