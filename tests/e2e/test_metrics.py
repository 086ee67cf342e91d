"""The metrics of both daemons, against runs whose numbers are known."""

import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import grpc
import pytest
from metrics import ENDPOINT, Metrics
from node import BIN, MODEL, PATIENCE, Node, cache, tokens, wait_until
from stubs import inference_pb2

TYPES = {"gauge", "counter", "histogram", "summary"}  # the last is of the library's own metrics


@pytest.fixture
def node():
    with Node(pool="96MiB", manager_flags=ENDPOINT) as node:
        node.stub = node.start_worker(flags=ENDPOINT)
        node.ask = lambda: (Metrics(node.manager), Metrics(node.workers["worker"]))
        yield node


def generate(node, prompt, new, **settings):
    """The Finished of a generation of exactly `new` tokens."""
    request = inference_pb2.GenerateRequest(
        input=tokens(range(1000, 1000 + prompt)), max_tokens=new, ignore_eos=True, **settings)  # fmt: skip
    return [event for event in node.stub.Generate(request) if event.HasField("finished")][0].finished


def test_every_sample_has_help_and_a_type(node):
    for metrics in node.ask():
        for family in metrics.families:
            assert family.documentation and family.type in TYPES, family.name
        assert metrics("process_open_fds") < metrics("process_max_fds")
        assert metrics("process_resident_memory_bytes") > 1 << 20
        assert metrics("process_threads") > 1
        assert 1 <= metrics("folio:connections") < metrics("folio:max_connections")
    # It counts in hundredths of a second, of which a manager that has done nothing needs one or none. Answers take some too.
    wait_until(lambda: all(metrics("process_cpu_seconds_total") > 0 for metrics in node.ask()), PATIENCE, "processor time is counted")
    names = {label for metrics in node.ask() for _, labels in metrics.samples for label in labels if label[0] == "model_name"}
    assert len(names) == 1  # both daemons say the same of a model


def cancelled(worker):
    return worker("folio:request_failures_total", code="CANCELLED", reason="other")


def at_rest(worker, ended):
    """Whether so many requests have ended, and nothing is left of them."""
    outcomes = ("folio:request_success_total", "folio:request_failures_total")
    counted = sum(value for (name, _), value in worker.samples.items() if name in outcomes)
    return counted == ended and worker("folio:num_requests_running") == worker("folio:step_in_flight_seconds") == 0


def check_times(worker, finished, took):
    """Tokens cross a queue between the engine's clock and the one of the metrics. That makes a first token later, and the time
    to the last one shorter by as much at most. `took` is the time of all these requests for their client."""
    first, between = (worker(f"folio:{name}_seconds_sum") for name in ("time_to_first_token", "inter_token_latency"))
    engine_first = sum(each.usage.time_to_first_token for each in finished)
    engine_between = sum(each.usage.decode_seconds for each in finished)
    rounding = 0.001
    assert engine_first - rounding <= first
    assert engine_between - (first - engine_first) - rounding <= between
    assert first + between <= took


def test_numbers_of_a_run(node):
    before = node.ask()[0]
    assert before("folio:sequences_opened_total", policy="paged_eviction") == 0  # it exists before the first event
    begun = time.monotonic()
    long = generate(node, 200, 4, cache=cache("paged_eviction", 96))
    short = [generate(node, 10, 20) for _ in range(2)]
    took = time.monotonic() - begun
    node.stub.Score(inference_pb2.ScoreRequest(input=tokens([1, 2, 3]), continuation=tokens([4, 5])))
    for refused in ({"max_tokens": 1 << 30}, {"max_tokens": 8000, "input": tokens(range(190))}):
        with pytest.raises(grpc.RpcError):
            request = {"input": tokens([1]), "ignore_eos": True, **refused}
            list(node.stub.Generate(inference_pb2.GenerateRequest(**request)))

    node.assert_all_free()
    wait_until(lambda: at_rest(node.ask()[1], 4 + 2), PATIENCE, "all requests are counted, and none runs")
    manager, worker = node.ask()
    assert worker("folio:request_success_total", finished_reason="length") == 4
    assert worker("folio:request_success_total", finished_reason="stop") == 0
    assert worker("folio:request_failures_total", code="INVALID_ARGUMENT", reason="other") == 1
    assert worker("folio:request_failures_total", code="RESOURCE_EXHAUSTED", reason="never_fits") == 1
    assert worker("folio:generation_tokens_total") == 4 + 2 * 20  # nothing is generated to score
    assert worker("folio:prompt_tokens_total") == 200 + 2 * 10 + 3
    for name, count, total in [
        ("time_to_first_token_seconds", 3, None),
        ("inter_token_latency_seconds", 3 + 2 * 19, None),
        ("request_prompt_tokens", 4, 200 + 2 * 10 + 3),
        ("request_generation_tokens", 3, 4 + 2 * 20),
        ("e2e_request_latency_seconds", 4, None),
        ("request_queue_time_seconds", 4, None),
    ]:
        assert worker(f"folio:{name}_count") == count, name
        assert worker(f"folio:{name}_bucket", le="+Inf") == count, name
        assert total is None or worker(f"folio:{name}_sum") == total, name
    check_times(worker, [long, *short], took)
    assert worker("folio:steps_total") > 0 and worker("folio:step_seconds_total") > 0
    assert worker("folio:serving") == 1 and worker("folio:num_requests_waiting") == 0
    assert worker("folio:step_in_flight_seconds") == 0 and worker("folio:oldest_waiting_seconds") == 0
    steps = {phase: worker("folio:step_duration_seconds_count", phase=phase) for phase in ("prefill", "decode", "mixed")}
    assert steps["prefill"] >= 4 and steps["decode"] >= 3 + 2 * 19 and steps["mixed"] == 0
    assert sum(steps.values()) <= worker("folio:steps_total")  # a step that only edits tables computes nothing
    for phase in ("prefill", "decode"):
        assert 0 < worker("folio:step_duration_seconds_sum", phase=phase) < took
        assert worker("folio:step_duration_seconds_bucket", phase=phase, le="+Inf") == steps[phase]

    assert manager("folio:sequences_opened_total", policy="paged_eviction") == 1
    assert manager("folio:sequences_opened_total", policy="full") == 3
    assert manager("folio:sequences_refused_total", code="RESOURCE_EXHAUSTED") == 1
    assert long.cache.plans == 1
    assert manager("folio:evictions_total", policy="paged_eviction") == 1
    assert manager("folio:decision_seconds_count", policy="paged_eviction") == 1
    assert 0 < manager("folio:decision_seconds_sum", policy="paged_eviction") < 5
    assert manager("folio:evicted_pages_total", policy="paged_eviction") == long.cache.evicted_pages > 0
    assert manager("folio:evicted_pages_total", policy="key_diff") == 0
    assert manager("folio:attached_workers") == 1 and manager("folio:draining") == 0
    assert manager("folio:kv_cache_usage_perc") == 0


def test_a_policy_over_another_has_series_of_its_own(node):
    options = cache("kv_crush", 96)
    options.policy.kv_crush.key_diff.SetInParent()
    finished = generate(node, 200, 4, cache=options)
    manager = node.ask()[0]
    [name] = [dict(labels)["policy"] for (metric, labels), value in manager.samples.items()
              if metric == "folio:sequences_opened_total" and value]  # fmt: skip
    assert name.startswith("kv_crush") and "key_diff" in name
    assert manager("folio:evictions_total", policy=name) == finished.cache.plans == 1
    assert manager("folio:evicted_pages_total", policy=name) == finished.cache.evicted_pages > 0
    assert manager("folio:decision_seconds_count", policy=name) == 1


def test_gauges_follow_the_pool(node):
    running = node.stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(64)), max_tokens=4000, ignore_eos=True))
    next(event for event in running if event.HasField("chunk"))
    node.decoding()
    manager, worker = node.ask()
    pool = node.pool()
    assert manager("folio:sequences", state="decode") == 1 and worker("folio:num_requests_running") == 1
    held, free = (manager("folio:pool_pages", state=state) for state in ("held", "free"))
    assert held > 0 and held + free == pool.total_pages
    assert manager("folio:kv_cache_usage_perc") == pytest.approx(held / pool.total_pages)
    assert 0 < worker("folio:kv_cache_usage_perc") <= 1
    assert manager("folio:pool_bytes") == pool.pool_bytes and manager("folio:page_bytes") == pool.page_bytes
    generate(node, 100, 2)
    mixed = node.ask()[1]
    assert mixed("folio:step_duration_seconds_count", phase="mixed") >= 1
    assert mixed("folio:step_duration_seconds_sum", phase="mixed") > 0
    running.cancel()
    wait_until(lambda: cancelled(node.ask()[1]) == 1, PATIENCE, "cancellation")
    node.assert_all_free()
    assert node.ask()[0]("folio:pool_pages", state="free") == pool.total_pages
    wait_until(lambda: node.ask()[1]("folio:kv_cache_usage_perc") == 0, PATIENCE, "the worker holds nothing")


def test_requests_that_wait_in_vain():
    with Node(pool="96MiB") as node:
        stub = node.start_worker(flags=["--max_batch=1", "--max_queue=1", "--queue_timeout=6s", *ENDPOINT])
        request = inference_pb2.GenerateRequest(input=tokens(range(64)), max_tokens=4000, ignore_eos=True)

        ask = lambda: Metrics(node.workers["worker"])  # noqa: E731
        refused = lambda reason: ask()("folio:request_failures_total", code="RESOURCE_EXHAUSTED", reason=reason)  # noqa: E731
        running = stub.Generate(request)
        assert next(running).HasField("started")
        assert ask()("folio:request_queue_time_seconds_count") == 1  # it has its pages, and its end is far
        waiting = stub.Generate(request)
        wait_until(lambda: ask()("folio:oldest_waiting_seconds") > 2, PATIENCE, "it waits")
        with pytest.raises(grpc.RpcError) as failure:
            list(stub.Generate(request))
        assert "--max_queue" in failure.value.details() and refused("queue_full") == 1
        with pytest.raises(grpc.RpcError) as failure:
            list(waiting)
        assert "--queue_timeout" in failure.value.details() and refused("queue_timeout") == 1
        metrics = wait_until(lambda: (now := ask())("folio:oldest_waiting_seconds") == 0 and now, PATIENCE, "none waits")
        assert metrics("folio:request_queue_time_seconds_count") == 2  # not the one that was refused at once
        assert 6 <= metrics("folio:request_queue_time_seconds_sum") < 60

        gone = stub.Generate(request)
        wait_until(lambda: ask()("folio:num_requests_waiting") == 1, PATIENCE, "another one waits")
        gone.cancel()
        wait_until(lambda: cancelled(ask()) == 1, PATIENCE, "it is cancelled")
        assert ask()("folio:request_queue_time_seconds_count") == 3
        running.cancel()
        wait_until(lambda: cancelled(ask()) == 2, PATIENCE, "the first is cancelled")
        assert ask()("folio:request_queue_time_seconds_count") == 3  # it did not wait any more
        assert refused("never_fits") == refused("tokenizer_full") == refused("other") == 0


def test_a_lease_runs_down_while_its_worker_is_silent(tiny_model):
    with Node(pool="8MiB", lease="20s", manager_flags=ENDPOINT) as node:
        worker = node.start_worker(model=tiny_model) and node.workers["worker"]

        def left():
            [(labels, value)] = [(dict(labels), value) for (name, labels), value in Metrics(node.manager).samples.items()
                                 if name == "folio:worker_lease_seconds"]  # fmt: skip
            assert labels["worker"] == "w1" and labels["name"] and labels["model_name"]
            return value

        assert 0 < left() <= 20
        worker.signal(signal.SIGSTOP)
        try:
            # It sends a message every third of the lease, so that no worker comes so near to its end.
            wait_until(lambda: left() < 10, PATIENCE, "the lease runs down")
        finally:
            worker.signal(signal.SIGCONT)
        wait_until(lambda: left() > 12, PATIENCE, "the lease is renewed")


def test_a_lost_worker_is_counted(node):
    running = node.stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(64)), max_tokens=300, ignore_eos=True))
    first = next(running).started
    for _ in range(3):
        next(running)
    node.workers["worker"].signal(signal.SIGKILL)
    node.workers["worker"].wait()
    wait_until(lambda: Metrics(node.manager)("folio:sequences", state="orphaned") == 1, PATIENCE, "an orphan")
    stub = node.start_worker("other", flags=ENDPOINT)
    resume = inference_pb2.Resume(sequence_id=first.sequence_id, resume_token=first.resume_token)
    list(stub.Generate(inference_pb2.GenerateRequest(resume=resume)))
    manager, other = Metrics(node.manager), Metrics(node.workers["other"])
    assert manager("folio:sequences_orphaned_total") == manager("folio:sequences_claimed_total") == 1
    assert manager("folio:orphans_ended_total") == 0
    lost = sum(manager("folio:fenced_workers_total", reason=reason) for reason in ("process_ended", "session_ended"))
    assert lost == 1
    assert other("folio:resumed_requests_total") == 1
    assert other("folio:time_to_first_token_seconds_count") == 0  # the first worker gave the first token
    assert other("folio:request_success_total", finished_reason="length") == 1


def test_a_killed_process_is_counted():
    flags = ["--kill_fenced_after=100ms", *ENDPOINT]
    with Node(pool="96MiB", lease="1s", manager_flags=flags) as node:
        stub = node.start_worker()
        before = Metrics(node.manager)
        assert before("folio:killed_processes_total") == before("folio:fenced_workers_total", reason="attached_again") == 0
        running = stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(64)), max_tokens=4000, ignore_eos=True))
        for _ in range(3):
            next(running)
        hung = node.workers.pop("worker")
        hung.signal(signal.SIGSTOP)
        try:
            assert hung.wait() == -signal.SIGKILL
        finally:
            hung.popen.kill()
            hung.wait()
        wait_until(lambda: Metrics(node.manager)("folio:killed_processes_total") == 1, PATIENCE, "the manager counts it")
        assert Metrics(node.manager)("folio:fenced_workers_total", reason="lease_ran_out") == 1


def test_connections_are_counted():
    with Node(pool="64MiB", manager_flags=[*ENDPOINT, "--max_connections=3"]) as node:
        clients = [socket.socket(socket.AF_UNIX) for _ in range(5)]
        for client in clients:
            client.connect(node.manager_address.removeprefix("unix:"))
        # The node itself has one of the three.
        wait_until(lambda: Metrics(node.manager)("folio:connections_refused_total") == 3, PATIENCE, "three are refused")
        metrics = Metrics(node.manager)
        assert metrics("folio:connections") == metrics("folio:max_connections") == 3
        assert metrics("folio:accept_failures_total") == 0
        for client in clients:
            client.close()
        wait_until(lambda: Metrics(node.manager)("folio:connections") == 1, PATIENCE, "one is left")


def test_a_worker_without_a_manager_can_be_seen(tmp_path):
    log = tmp_path / "log"
    with open(log, "w") as out:
        worker = subprocess.Popen(
            [BIN / "folio-worker", f"--manager=unix:{tmp_path}/none.sock", f"--listen=unix:{tmp_path}/worker.sock",
             f"--model={MODEL}", *ENDPOINT], stdout=out, stderr=out)  # fmt: skip
    try:
        worker.words = log.read_text
        assert Metrics(worker)("folio:serving") == 0
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0


def test_another_path_is_not_found(node):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{node.ask()[0].address}/", timeout=10)
    assert refused.value.code == 404


def test_a_port_that_is_taken_is_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        manager = subprocess.run(
            [BIN / "folio-manager", f"--listen=unix:{tmp_path}/manager.sock", "--pool_bytes=64MiB",
             f"--metrics_listen={address}"], capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert manager.returncode == 1
    assert f"cannot listen on {address} for metrics: another program uses the port" in manager.stderr
