"""A sequence is gone, with its manager or its worker: the SDKs, folioctl and the gateway have it computed again, to the same tokens."""

import os
import signal
import subprocess

import folio
import grpc
import pytest
from gateway import Gateway, events, text_of
from metrics import Metrics
from node import BIN, PATIENCE, Node, side_by_side, wait_until
from streams import MOST, PROSE, REQUESTS, all_alone, asking, kill, refused, whole
from stubs import admin_pb2, inference_pb2


def kill_the_manager(node):
    """It keeps no record, and the next one knows nothing of the sequences."""
    os.kill(node.manager.pid, signal.SIGKILL)
    node.manager.wait()
    node.start_manager()
    node.manager.says("listening ")

    def answers():
        try:
            return node.admin.GetManager(admin_pb2.GetManagerRequest(), timeout=PATIENCE)
        except grpc.RpcError:
            return None

    # The connection to the last one is still to be found dead.
    wait_until(answers, PATIENCE, "the next manager answers")


def pieces(stub, request):
    """The chunks of an answer and its end."""
    answer = list(stub.Generate(request, timeout=120))
    return [event.chunk for event in answer if event.HasField("chunk")], answer[-1].finished


def replay(request, chunks, seed):
    """The request as it is sent again after these chunks."""
    again = inference_pb2.GenerateRequest()
    again.CopyFrom(request)
    again.sampling.seed = seed
    again.replay.received_tokens.extend(token for chunk in chunks for token in chunk.tokens)
    return again


@pytest.fixture(scope="module")
def kept():
    """A node whose manager is not killed."""
    with Node(pool="256MiB") as node:
        node.stub = node.start_worker(flags=["--metrics_listen=127.0.0.1:0"])
        yield node
        node.assert_all_free()


FORMS = {
    "full": asking(),
    "sampled": asking(temperature=0.8, top_p=0.9, seed=7),
    "paged_eviction": asking("paged_eviction", 64),
    "penalties": asking(temperature=0.8, seed=9, presence_penalty=1.5, repetition_penalty=1.2),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_worker_continues_from_any_token(kept, name):
    request = FORMS[name]
    chunks, finished = pieces(kept.stub, request)
    for cut in (1, 17, len(chunks) - 1, len(chunks)):
        rest, end = pieces(kept.stub, replay(request, chunks[:cut], request.sampling.seed))
        assert rest == chunks[cut:], cut
        assert end.reason == finished.reason
        assert end.usage.prompt_tokens == 200 and end.usage.generated_tokens == MOST
        assert end.cache.resident_tokens == finished.cache.resident_tokens


def test_a_stop_string_and_a_character_may_begin_before_and_end_after(kept):
    request = asking(temperature=0.9, seed=3)
    # Tokens are parts of these characters.
    request.format.regex = "(😀|é|中|ä|🦊){60}"
    request.ignore_eos = False
    chunks, _ = pieces(kept.stub, request)
    assert any(len(chunk.tokens) > 1 for chunk in chunks), "no character has more than one token"
    text = "".join(chunk.text for chunk in chunks)
    request.stop.append(text[20:26])
    chunks, finished = pieces(kept.stub, request)
    assert finished.stop == text[20:26]
    for cut in range(1, len(chunks) + 1):
        rest, end = pieces(kept.stub, replay(request, chunks[:cut], 3))
        assert rest == chunks[cut:] and end.stop == finished.stop, cut
        assert end.usage.generated_tokens == finished.usage.generated_tokens


def test_logprobs_are_those_of_the_new_tokens(kept):
    request = asking()
    request.logprobs, request.max_tokens = 2, 30
    chunks, _ = pieces(kept.stub, request)
    rest, _ = pieces(kept.stub, replay(request, chunks[:11], 0))
    assert [one.token for chunk in rest for one in chunk.logprobs] == [token for chunk in chunks[11:] for token in chunk.tokens]
    assert rest == chunks[11:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda request: request.sampling.ClearField("seed"), "sampling.seed must be set with replay.received_tokens"),
        (lambda request: request.replay.received_tokens.append(1 << 20), "replay.received_tokens[3] is 1048576"),
        (lambda request: setattr(request, "max_tokens", 2), "replay.received_tokens has 3 tokens, more than max_tokens"),
        (lambda request: setattr(request.format, "regex", "[0-9]+"), "which the format does not allow there"),
    ],
    ids=["no seed", "no token", "too many", "another form"],
)
def test_what_cannot_be_a_beginning_is_refused(kept, change, words):
    request = asking(seed=1)
    request.ignore_eos = False
    chunks, _ = pieces(kept.stub, asking(seed=1))
    again = replay(request, chunks[:3], 1)
    change(again)
    code, said = refused(kept.stub, again)
    assert code.name == "INVALID_ARGUMENT" and words in said, said


ASKED = {
    "full": {},
    "sampled": {"temperature": 0.8, "top_p": 0.9, "seed": 7},
    "paged_eviction": {"policy": "paged_eviction", "budget": 64, "eviction_mode": "synchronous"},
    "query_diff": {"policy": "query_diff", "budget": 96, "eviction_mode": "synchronous"},
}


def begun(client, least=25, **fields):
    """A generation with some tokens already."""
    given = {"tokens": PROSE[:200], "max_tokens": MOST, "ignore_eos": True, **fields}
    generation = client.generate(**given, timeout=120)
    got = 0
    while got < least:
        got += len(next(generation).tokens)
    return generation


def test_the_python_sdk_sees_nothing_of_a_manager_without_a_record():
    expected = all_alone([REQUESTS[name] for name in ASKED])
    with Node(pool="256MiB") as node:
        node.start_worker(flags=["--metrics_listen=127.0.0.1:0"])
        worker = node.workers["worker"]
        with folio.Client(node.worker_address(), resume=PATIENCE) as client:
            # All at once, so that the numbers of some are given to others.
            generations = side_by_side(*[lambda fields=fields: begun(client, **fields) for fields in ASKED.values()])
            kill_the_manager(node)
            results = side_by_side(*[generation.result for generation in generations])
        for name, result, unbroken in zip(ASKED, results, expected, strict=True):
            assert list(result.tokens) == unbroken.tokens, name
            assert result.text == unbroken.text
            assert result.finished.replays == 1
            assert result.finished.usage.prompt_tokens == 200 and result.finished.usage.generated_tokens == MOST
            assert result.finished.cache.resident_tokens == unbroken.finished.cache.resident_tokens
        assert Metrics(worker)("folio:replayed_requests_total") == len(ASKED)
        worker.says("kind=replay", times=len(ASKED))
        node.assert_all_free()
        node.assert_alive()


def test_managers_may_die_twice():
    (expected,) = all_alone([REQUESTS["sampled"]])
    with Node(pool="256MiB") as node:
        node.start_worker()
        with folio.Client(node.worker_address(), resume=PATIENCE) as client:
            generation = begun(client, **ASKED["sampled"])
            for _ in range(2):
                before = generation.started
                kill_the_manager(node)
                while generation.started is before:  # what had come already is read first
                    next(generation)
            result = generation.result()
        assert list(result.tokens) == expected.tokens and result.text == expected.text
        assert result.finished.replays == 2
        node.assert_all_free()


def test_a_stop_string_that_the_death_of_the_manager_cuts():
    with Node(pool="256MiB") as node:
        stub = node.start_worker()
        chunks, _ = pieces(stub, REQUESTS["sampled"])
        stop = "".join(chunk.text for chunk in chunks[30:100])[:250]
        before = "".join(chunk.text for chunk in chunks[:30])
        with folio.Client(node.worker_address(), resume=PATIENCE) as client:
            generation = begun(client, least=40, stop=stop, **ASKED["sampled"])
            kill_the_manager(node)
            result = generation.result()
        assert result.text == before and result.finished.reason == "stop" and result.finished.stop == stop
        assert result.finished.replays == 1
        node.workers["worker"].says("kind=replay")


def test_without_leave_a_client_gets_the_error():
    with Node(pool="256MiB") as node:
        node.start_worker()
        with folio.Client(node.worker_address(), resume=PATIENCE, replay=False) as client:
            generation = begun(client)
            kill_the_manager(node)
            with pytest.raises(folio.Unavailable, match="not resumed: sequence .* is not open"):
                generation.result()
        assert "kind=replay" not in node.workers["worker"].words()
        node.assert_all_free()


def test_an_orphan_that_has_ended_is_computed_again_at_a_standby():
    (expected,) = all_alone([REQUESTS["paged_eviction"]])
    with Node(pool="256MiB", manager_flags=["--orphan_ttl=0s"]) as node:
        node.start_worker("first")
        node.start_worker("second")
        with folio.Client(node.worker_address("first"), standby=[node.worker_address("second")]) as client:
            generation = begun(client, **ASKED["paged_eviction"])
            kill(node, "first")
            result = generation.result()
        assert list(result.tokens) == expected.tokens and result.finished.replays == 1
        node.assert_all_free()


def folioctl(node, *flags):
    """The C++ SDK, asked for a text whose prompt is `PROSE[:60]`. Its output has begun."""
    ids = inference_pb2.DetokenizeRequest(ids=PROSE[:60])
    prompt = node.stub.Detokenize(ids, timeout=60).text
    process = subprocess.Popen(
        [BIN / "folioctl", "generate", prompt, "--max_tokens", str(MOST), "--ignore_eos", "--mode", "synchronous",
         "--address", node.worker_address(), *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return process, process.stdout.read1(20)


def test_folioctl_sees_nothing_of_it_unless_it_is_told_to():
    (expected,) = all_alone([asking(prompt=PROSE[:60])])
    with Node(pool="256MiB") as node:
        node.stub = node.start_worker()
        process, first = folioctl(node)
        kill_the_manager(node)
        rest, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert (first + rest).decode().rstrip("\n") == expected.text.rstrip("\n")
        node.workers["worker"].says("kind=replay")

        wait_until(lambda: len(whole(node.stub, asking()).tokens), PATIENCE, "the worker serves")
        process, _ = folioctl(node, "--no_replay")
        kill_the_manager(node)
        _, errors = process.communicate(timeout=120)
        assert process.returncode != 0 and b"not resumed" in errors, errors


@pytest.mark.parametrize("replays", [True, False])
def test_clients_of_a_gateway_see_nothing_of_it_unless_it_is_told_to(long_model, replays):
    body = {"prompt": "a", "max_tokens": 3000, "ignore_eos": True, "temperature": 0.7, "seed": 3}
    with Node(pool="256MiB") as node:
        node.start_worker(model=long_model)
        with Gateway(node, flags=[f"--replay={str(replays).lower()}"]) as gateway:
            expected = gateway.complete(**body).json()
            connection, response = gateway.open("/v1/completions", {**body, "stream": True})
            first = response.readline()
            kill_the_manager(node)
            rest = response.read()
            connection.close()
            chunks = events(first + rest)
            if replays:
                assert text_of(chunks) == expected["choices"][0]["text"]
                gateway.process.says("resumed=1 replayed=1")
            else:
                assert "not resumed" in chunks[-1]["error"]["message"]
            assert gateway.metric("folio:gateway_replayed_total") == int(replays)
        node.assert_all_free()
