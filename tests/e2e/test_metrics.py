"""The metrics of both daemons, against runs whose numbers are known."""

import signal
import socket
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest
from node import BIN, MODEL, Node, cache, tokens, wait_until
from prometheus_client.parser import text_string_to_metric_families
from stubs import inference_pb2

TYPES = {"gauge", "counter", "histogram", "summary"}  # the last is of the library's own metrics
ENDPOINT = ["--metrics_listen=127.0.0.1:0"]


class Metrics:
    """The metrics of one daemon at one moment. A sample is asked for by its name and labels; the model's name may be left out."""

    def __init__(self, process):
        line = wait_until(
            lambda: next((line for line in process.words().splitlines() if "listening for metrics" in line), None),
            60, "the address of the metrics",
        )  # fmt: skip
        self.address = line.split("address=")[1].strip()
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            assert answer.headers.get_content_type() == "text/plain"
            self.families = list(text_string_to_metric_families(answer.read().decode()))
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name, **labels):
        wanted = frozenset(labels.items())
        found = [value for (other, given), value in self.samples.items()
                 if other == name and {pair for pair in given if pair[0] != "model_name"} == wanted]  # fmt: skip
        assert len(found) == 1, f"{name}{labels}: {sorted(key for key in self.samples if key[0] == name)}"
        return found[0]


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
        assert metrics("process_cpu_seconds_total") > 0
        assert metrics("process_threads") > 1
    names = {label for metrics in node.ask() for _, labels in metrics.samples for label in labels if label[0] == "model_name"}
    assert len(names) == 1  # both daemons say the same of a model


def test_numbers_of_a_run(node):
    before = node.ask()[0]
    assert before("folio:sequences_opened_total", policy="paged_eviction") == 0  # it exists before the first event
    long = generate(node, 200, 4, cache=cache("paged_eviction", 96))
    short = [generate(node, 10, 20) for _ in range(2)]
    node.stub.Score(inference_pb2.ScoreRequest(input=tokens([1, 2, 3]), continuation=tokens([4, 5])))
    for refused in ({"max_tokens": 1 << 30}, {"max_tokens": 8000, "input": tokens(range(190))}):
        with pytest.raises(grpc.RpcError):
            request = {"input": tokens([1]), "ignore_eos": True, **refused}
            list(node.stub.Generate(inference_pb2.GenerateRequest(**request)))

    wait_until(lambda: node.ask()[1]("folio:num_requests_running") == 0, 10, "no request runs")
    manager, worker = node.ask()
    assert worker("folio:request_success_total", finished_reason="length") == 4
    assert worker("folio:request_success_total", finished_reason="stop") == 0
    assert worker("folio:request_failures_total", code="INVALID_ARGUMENT") == 1
    assert worker("folio:request_failures_total", code="RESOURCE_EXHAUSTED") == 1
    assert worker("folio:generation_tokens_total") == 4 + 2 * 20  # nothing is generated to score
    assert worker("folio:prompt_tokens_total") == 200 + 2 * 10 + 3
    for name, count, total in [
        ("time_to_first_token_seconds", 3, sum(each.usage.time_to_first_token for each in [long, *short])),
        ("inter_token_latency_seconds", 3 + 2 * 19, sum(each.usage.decode_seconds for each in [long, *short])),
        ("request_prompt_tokens", 4, 200 + 2 * 10 + 3),
        ("request_generation_tokens", 3, 4 + 2 * 20),
        ("e2e_request_latency_seconds", 4, None),
        ("request_queue_time_seconds", 4, None),
    ]:
        assert worker(f"folio:{name}_count") == count, name
        assert worker(f"folio:{name}_bucket", le="+Inf") == count, name
        if total is not None:
            # Two clocks measure it, and tokens cross a queue between them.
            assert worker(f"folio:{name}_sum") == pytest.approx(total, abs=0.2), name
    assert worker("folio:steps_total") > 0 and worker("folio:step_seconds_total") > 0
    assert worker("folio:serving") == 1 and worker("folio:num_requests_waiting") == 0

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
    running = node.stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(64)), max_tokens=2000, ignore_eos=True))
    for _ in range(5):
        next(running)
    manager, worker = node.ask()
    pool = node.pool()
    assert manager("folio:sequences", state="decode") == 1 and worker("folio:num_requests_running") == 1
    held, free = (manager("folio:pool_pages", state=state) for state in ("held", "free"))
    assert held > 0 and held + free == pool.total_pages
    assert manager("folio:kv_cache_usage_perc") == pytest.approx(held / pool.total_pages)
    assert 0 < worker("folio:kv_cache_usage_perc") <= 1
    assert manager("folio:pool_bytes") == pool.pool_bytes and manager("folio:page_bytes") == pool.page_bytes
    running.cancel()
    wait_until(lambda: node.ask()[1]("folio:request_failures_total", code="CANCELLED") == 1, 10, "cancellation")
    node.assert_all_free()
    manager, worker = node.ask()
    assert manager("folio:pool_pages", state="free") == pool.total_pages
    assert worker("folio:kv_cache_usage_perc") == 0


def test_a_lost_worker_is_counted(node):
    running = node.stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(64)), max_tokens=300, ignore_eos=True))
    first = next(running).started
    for _ in range(3):
        next(running)
    node.workers["worker"].signal(signal.SIGKILL)
    node.workers["worker"].wait()
    wait_until(lambda: Metrics(node.manager)("folio:sequences", state="orphaned") == 1, 20, "an orphan")
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
        assert worker.wait(30) == 0


def test_another_path_is_not_found(node):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{node.ask()[0].address}/", timeout=10)
    assert refused.value.code == 404


def test_a_port_that_is_taken_is_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        manager = subprocess.run(
            [BIN / "folio-manager", f"--listen=unix:{tmp_path}/manager.sock", "--pool_bytes=64MiB",
             f"--metrics_listen={address}"], capture_output=True, text=True, timeout=30)  # fmt: skip
    assert manager.returncode == 1
    assert f"cannot listen on {address} for metrics: another program uses the port" in manager.stderr
