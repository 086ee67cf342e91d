"""One bad sequence ends alone: damaged pages, a record that cannot be, and workers that are lost with it again and again."""

import concurrent.futures
import time

import folio
import grpc
import pytest
from metrics import ENDPOINT, Metrics
from node import PATIENCE, Node, cache, wait_until
from poison import damage
from streams import PROSE, REQUESTS, Stream, asking, kill, refused, whole
from stranger import Stranger
from stubs import inference_pb2, kv_manager_pb2

TOKEN = b"0123456789abcdef"
MOST = 100


@pytest.fixture
def node():
    with Node(pool="512MiB", manager_flags=["--orphan_ttl=1h", *ENDPOINT]) as node:
        yield node
        node.assert_all_free()
        node.assert_alive()


def short(request):
    """The request, for fewer tokens."""
    copy = inference_pb2.GenerateRequest()
    copy.CopyFrom(request)
    copy.max_tokens = MOST
    return copy


def failure_of(stream, call):
    """The error that ends the call, whose events until then the stream takes."""
    with pytest.raises(grpc.RpcError) as failure:
        for event in call:
            stream.take(event)
    return failure.value


def refused_at_last(stub, request):
    """As `refused`, once the manager knows that the process of the last worker has ended."""

    def answer():
        code, words = refused(stub, request)
        return code is not grpc.StatusCode.UNAVAILABLE and (code, words)

    return wait_until(answer, PATIENCE, "the sequence can be claimed")


def test_a_damaged_page_ends_its_sequence_alone(node):
    stub = node.start_worker()
    requests = [short(REQUESTS[name]) for name in ("full", "paged_eviction", "sampled")]
    expected = [whole(stub, request) for request in requests]
    doomed = asking(prompt=PROSE[:100])
    doomed.max_tokens = 4000
    lost, streams = Stream(), [Stream() for _ in requests]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        ending = threads.submit(failure_of, lost, stub.Generate(doomed, timeout=120))
        following = [
            threads.submit(stream.follow, stub.Generate(request, timeout=120))
            for stream, request in zip(streams, requests, strict=True)
        ]
        wait_until(lambda: all(len(stream.tokens) >= 5 for stream in [lost, *streams]), 60, "all streams have begun")
        damage(node, lost.started.sequence_id)
        assert all(stream.finished is None for stream in streams), "they must run beside it"
        error = ending.result()
        for one in following:
            one.result()
    assert error.code() is grpc.StatusCode.DATA_LOSS
    assert "not finite for this sequence, at position " in error.details()
    for stream, unbroken in zip(streams, expected, strict=True):
        assert stream.finished is not None and stream.tokens == unbroken.tokens
    node.manager.says("reason=error")  # it was closed at the manager
    node.assert_all_free()
    # Its pages are as good as any others once they are written again.
    assert whole(stub, requests[0]).tokens == expected[0].tokens


def test_a_record_that_cannot_be_ends_its_sequence_alone(node):
    stub = node.start_worker()
    expected = whole(stub, short(REQUESTS["full"]))
    opening = kv_manager_pb2.OpenSequence(
        request_tag=1, prompt_tokens=[1, 2, 4_000_000_000], max_new_tokens=20, resume_token=TOKEN
    )
    with Stranger(node, open=[opening]) as stranger:
        assert stranger.answer.code == 0, stranger.answer.message
    left = Stream()
    left.started = inference_pb2.Started(sequence_id=stranger.answer.sequence_id, resume_token=TOKEN)
    code, words = refused_at_last(stub, left.resume())
    assert code is grpc.StatusCode.INTERNAL and "token 2 is 4000000000, the vocabulary has " in words
    for _ in range(2):
        assert refused(stub, left.resume())[0] is grpc.StatusCode.NOT_FOUND
    node.assert_alive()
    assert whole(stub, short(REQUESTS["full"])).tokens == expected.tokens


def test_a_sequence_whose_workers_are_lost_again_and_again_is_given_up(node):
    node.start_worker("first")
    second = node.start_worker("second")
    standby = [node.worker_address("second")]
    with folio.Client(node.worker_address("first"), standby=standby, resume=120) as client:
        generation = client.generate(tokens=PROSE[:200], max_tokens=4000, ignore_eos=True, timeout=240)
        next(generation)
        kill(node, "first")
        started = generation.started
        claim = kv_manager_pb2.ClaimSequence(
            request_tag=1, sequence_id=started.sequence_id, resume_token=started.resume_token
        )
        for epoch in (2, 3):
            with Stranger(node, claim=[claim]) as stranger:
                assert stranger.answer.code == 0, stranger.answer.message
                assert stranger.answer.lease_epoch == epoch
        begun = time.monotonic()
        # The SDK looks for a worker until one tells it that there is nothing to continue.
        with pytest.raises(folio.Unavailable, match="not resumed: .* 2 workers in a row were lost"):
            generation.result()
        assert time.monotonic() - begun < 60
    for _ in range(2):
        stream = Stream()
        stream.started = started
        code, words = refused(second, stream.resume())
        assert code is grpc.StatusCode.ABORTED and "2 workers in a row were lost" in words
    node.manager.says(f"sequence given up sequence={started.sequence_id} ")
    manager = Metrics(node.manager)
    assert manager("folio:sequences_given_up_total") == 1
    assert manager("folio:sequences_claimed_total") == 2
    node.assert_all_free()
    assert len(whole(second, short(REQUESTS["full"])).tokens) == MOST


def test_a_prompt_whose_workers_are_lost_at_its_compaction_is_given_up(node):
    """Each worker computes the prompt again from its first token, which is no progress."""
    stub = node.start_worker()
    prompt = list(range(1, 101))
    opening = kv_manager_pb2.OpenSequence(
        request_tag=1,
        prompt_tokens=prompt,
        max_new_tokens=20,
        resume_token=TOKEN,
        cache=cache("streaming_llm", 48, sink=16, recent=16),
    )
    with Stranger(node, prompt=len(prompt), open=[opening]) as stranger:
        assert stranger.answer.code == 0, stranger.answer.message
        sequence = stranger.answer.sequence_id
    claim = kv_manager_pb2.ClaimSequence(request_tag=1, sequence_id=sequence, resume_token=TOKEN)
    for epoch in (2, 3):
        with Stranger(node, prompt=len(prompt), claim=[claim]) as stranger:
            assert stranger.answer.code == 0, stranger.answer.message
            assert stranger.answer.lease_epoch == epoch and stranger.answer.logical_length == 0
    left = Stream()
    left.started = inference_pb2.Started(sequence_id=sequence, resume_token=TOKEN)
    code, words = refused_at_last(stub, left.resume())
    assert code is grpc.StatusCode.ABORTED and "2 workers in a row were lost" in words
    assert Metrics(node.manager)("folio:sequences_given_up_total") == 1
