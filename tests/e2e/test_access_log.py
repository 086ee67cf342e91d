"""The worker's log has a line for each request, whatever became of it."""

import json
import os

import grpc
import pytest
from node import Node, cache, tokens, wait_until
from stubs import admin_pb2, inference_pb2


def lines(node, name="worker"):
    found = [json.loads(line) for line in node.workers[name].words().splitlines() if line.startswith("{")]
    return [line for line in found if line["message"] == "request ended"]


def request(label, **settings):
    values = {"input": tokens(range(5, 45)), "max_tokens": 8, "ignore_eos": True, **settings}
    return inference_pb2.GenerateRequest(label=label, **values)


def test_every_request_has_a_line(long_model):
    with Node(pool="128MiB") as node:
        stub = node.start_worker(model=long_model, flags=["--log_format=json"])
        list(stub.Generate(request("good", tenant="a=\n" + "b" * 60, cache=cache("paged_eviction", 32)), metadata=[("x-request-id", "r 1")]))
        stub.Score(inference_pb2.ScoreRequest(input=tokens([5, 6]), continuation=tokens([7]), label="scored", tenant="team-7"))
        for label, settings in [("bad", {"stop": ["x"] * 17}), ("large", {"max_tokens": 1 << 30, "tenant": "x" * 300})]:
            with pytest.raises(grpc.RpcError):
                list(stub.Generate(request(label, **settings)))
        call = stub.Generate(request("gone", max_tokens=60_000))
        next(event for event in call if event.HasField("chunk"))
        call.cancel()
        wait_until(lambda: len(lines(node)) == 5, 60, "five lines")
        by_label = {line["label"]: line for line in lines(node)}
        good = by_label["good"]
        assert good["request_id"] == "r 1" and good["kind"] == "generate" and good["peer"]
        assert (good["prompt_tokens"], good["generated_tokens"], good["resumed_tokens"]) == (40, 8, 0)
        assert (good["policy"], good["budget"], good["end"], good["unread"]) == ("paged_eviction", "32", "length", False)
        assert good["tenant"] == "a=\n" + "b" * 60 and by_label["scored"]["tenant"] == "team-7"
        # Also one that was refused is told, and cut. Some name none.
        assert by_label["large"]["tenant"] == "x" * 200 + "..." and by_label["gone"]["tenant"] == ""
        assert good["sequence"] > 0 and good["first_token"] != "-" and good["total"].endswith("s")
        assert by_label["scored"]["kind"] == "score" and by_label["scored"]["end"] == "scored"
        assert by_label["bad"]["end"] == "INVALID_ARGUMENT" and by_label["bad"]["sequence"] == 0
        assert by_label["large"]["end"] == "INVALID_ARGUMENT" and by_label["large"]["first_token"] == "-"
        assert by_label["gone"]["end"] == "CANCELLED"

        quiet = node.start_worker("quiet", model=long_model, flags=["--log_format=json", "--access_log=false"])
        list(quiet.Generate(request("unseen")))
        node.workers["quiet"].stop()
        assert not lines(node, "quiet")


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = f"00-{TRACE}-{PARENT}-01"
MALFORMED = {
    "short": TRACED[:-1],
    "long": TRACED + "0",
    "capitals": TRACED.upper(),
    "no hex digit": TRACED.replace("4b", "4g"),
    "version ff": "ff" + TRACED[2:],
    "no trace": f"00-{'0' * 32}-{PARENT}-01",
    "no parent": f"00-{TRACE}-{'0' * 16}-01",
    "dashes elsewhere": f"00-{TRACE[1:]}-{PARENT}0-01",
    "another sign": TRACED[:-1] + "=",
}


def test_a_line_has_the_trace_of_its_client(tiny_model):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=tiny_model, flags=["--log_format=json"])
        list(stub.Generate(request("traced"), metadata=[("traceparent", TRACED)]))
        list(stub.Generate(request("untraced")))
        for label, text in MALFORMED.items():
            list(stub.Generate(request(label), metadata=[("traceparent", text)]))
        wait_until(lambda: len(lines(node)) == 2 + len(MALFORMED), 60, "all lines")
        found = {line["label"]: (line["traceparent"], line["trace_id"]) for line in lines(node)}
        assert found == {"traced": (TRACED, TRACE), "untraced": ("", ""), **dict.fromkeys(MALFORMED, ("", ""))}


def manager_lines(node, message):
    found = [json.loads(line) for line in node.manager.words().splitlines() if line.startswith("{")]
    return [line for line in found if line["message"] == message]


def test_the_manager_tells_who_got_the_pool_and_who_asked(tiny_model):
    with Node(pool="8MiB", manager_flags=["--log_format=json", "--log_level=debug"]) as node:
        node.start_worker(model=tiny_model)
        [handed] = wait_until(lambda: manager_lines(node, "pool descriptors handed out"), 60, "a worker has the pool")
        assert (handed["uid"], handed["pid"]) == (os.geteuid(), node.workers["worker"].pid)
        node.pool()
        with pytest.raises(grpc.RpcError):
            node.admin.GetSequence(admin_pb2.GetSequenceRequest(sequence_id=77), timeout=60)
        node.events()

        def asked():
            found = {line["request"]: line for line in manager_lines(node, "admin call ended")}
            return found if "WatchEventsRequest" in found else None

        found = wait_until(asked, 60, "three lines")
        assert found.keys() == {"ListPoolsRequest", "GetSequenceRequest", "WatchEventsRequest"}
        assert all(line["level"] == "debug" and line["peer"].startswith("unix:") for line in found.values())
        assert found["ListPoolsRequest"]["result"] == found["WatchEventsRequest"]["result"] == "OK"
        assert found["GetSequenceRequest"]["result"].startswith("NOT_FOUND") and "77" in found["GetSequenceRequest"]["result"]


def test_admin_calls_that_change_something_say_who_made_them(tiny_model):
    names = admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods_by_name
    acting = {name for name in names if not name.startswith(("List", "Get", "Explain", "Watch"))}
    assert acting == {"CloseSequence", "ParkSequence", "PinSequence", "LowerBudget", "SetQuota", "Drain", "ReleaseQuarantine"}
    with Node(pool="8MiB") as node:
        node.start_worker(model=tiny_model)
        node.admin.Drain(admin_pb2.DrainRequest(reason="for the log"))
        node.manager.says("for the log")
        (line,) = (line for line in node.manager.words().splitlines() if "for the log" in line and "peer=" in line)
        assert " WARN" in line and "peer=unix:" in line


def test_admin_calls_are_not_told_by_default(tiny_model):
    with Node(pool="8MiB") as node:
        node.start_worker(model=tiny_model)
        node.pool()
        node.manager.stop()
        assert "pool descriptors handed out" in node.manager.words()
        assert "admin call ended" not in node.manager.words()
