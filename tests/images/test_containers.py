"""Manager, worker and gateway from their images. The first two share a socket directory, and the last two a network."""

import json
import os
import re
import time
from concurrent import futures

import folio
import pytest
from containers import NAMESPACES, Host

SAMPLED = {"max_tokens": 160, "ignore_eos": True, "temperature": 0.8, "top_p": 0.9, "seed": 7, "timeout": 120}
HTTP = "http://127.0.0.1:8000"
# Plain TCP, because a container's network has the containers of its test alone.
ON_NETWORK = ("--listen=0.0.0.0:7000", "--insecure_tcp")
PROMPT = "The lighthouse keeper wrote in his book every evening, and what he wrote was always the same: "


def until(condition, timeout, what):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what()}"
        time.sleep(0.05)


@pytest.fixture
def host(images, model):
    with Host(model) as host:
        yield host


@pytest.fixture
def manager(host, images):
    manager = host.run(
        images["folio-manager"], "--listen=unix:/run/folio/manager.sock", "--pool_bytes=512MiB", "--orphan_ttl=5s",
        name="manager",
    )  # fmt: skip
    until(lambda: (host.sockets / "manager.sock").exists() or manager.process.poll() is not None, 60, manager.words)
    return manager


def start_worker(host, images, name, *flags):
    worker = host.run(
        images["folio-worker"], f"--model=/models/{host.model.name}", "--manager=unix:/run/folio/manager.sock",
        f"--listen=unix:/run/folio/{name}.sock", *flags, name=name,
    )  # fmt: skip
    # Tests run as root on the machine outside, which sees the socket that the container has made.
    until(lambda: (host.sockets / f"{name}.sock").exists() or worker.process.poll() is not None, 120, worker.words)
    assert worker.process.poll() is None and worker.pid, worker.words()
    return worker


def address(host, name):
    return f"unix:{host.sockets}/{name}.sock"


def folioctl(host, images, *arguments, name):
    """Output of folioctl in a container of its own."""
    container = host.run(images["folioctl"], *arguments, name=name)
    assert container.wait() == 0, container.words()
    return container.words()


def test_containers_have_nothing_in_common(host, images, manager):
    worker = start_worker(host, images, "worker")
    kinds = {"network": "net", "mount": "mnt"}
    for kind in NAMESPACES:
        kind = kinds.get(kind, kind)
        own = {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in ("self", manager.pid, worker.pid)}
        assert len(own) == 3, f"a {kind} namespace is shared"
    for pid in (manager.pid, worker.pid):
        with open(f"/proc/{pid}/status") as status:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
        assert fields["Uid"].split() == ["10001"] * 4 and fields["NSpid"].split()[-1] == "1"
        assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0 and fields["NoNewPrivs"] == "1"
        with open(f"/proc/{pid}/mounts") as mounts:
            root = next(line.split() for line in mounts if line.split()[1] == "/")
        assert "ro" in root[3].split(",")


def test_descriptors_cross_and_text_is_generated(host, images, manager):
    worker = start_worker(host, images, "worker")
    with open(f"/proc/{worker.pid}/maps") as maps:
        assert any("/memfd:" in line for line in maps), "the pool's memory is not mapped in the worker"
    said = folioctl(
        host, images, "generate", "The capital of France is", "--max_tokens=8", "--address=unix:/run/folio/worker.sock",
        name="generate",
    )  # fmt: skip
    assert "Paris" in said, said
    pools = json.loads(folioctl(host, images, "--output=json", "pools", name="pools"))
    assert len(pools["pools"]) == 1 and len(pools["pools"][0]["workers"]) == 1, pools


def test_the_page_map_of_a_running_sequence(host, images, manager):
    start_worker(host, images, "worker")
    with folio.Client(address(host, "worker")) as client:
        with client.generate(PROMPT, max_tokens=4000, ignore_eos=True) as generation:
            next(generation)
            shown = folioctl(host, images, "sequence", str(generation.started.sequence_id), name="sequence")
    # Layers that keep the same share a line.
    assert re.search(r"^\s*0-29\s+\d+\s+\|#+", shown, re.M), shown


@pytest.mark.parametrize("policy", ["full", "paged_eviction"])
def test_a_sequence_goes_on_in_another_container(host, images, manager, policy):
    asking = {**SAMPLED, "policy": policy, "eviction_mode": "synchronous"}
    if policy != "full":
        asking["budget"] = 64
    first = start_worker(host, images, "first")
    start_worker(host, images, "second")
    with folio.Client(address(host, "first")) as client:
        expected = client.generate(PROMPT * 4, **asking).result()
    with folio.Client(address(host, "first"), standby=[address(host, "second")]) as client:
        generation = client.generate(PROMPT * 4, **asking)
        for _, _ in zip(range(20), generation, strict=False):
            pass
        first.kill()
        result = generation.result()
    assert len(expected.tokens) == SAMPLED["max_tokens"]
    assert list(result.tokens) == list(expected.tokens) and result.text == expected.text


def test_pages_of_a_killed_worker_come_back(host, images, manager):
    """The manager has proof of the death of a process that its own pid namespace does not contain.

    Without it, the pages of the orphan would be in quarantine after its time.
    """
    worker = start_worker(host, images, "worker")
    with folio.Client(address(host, "worker"), resume=0) as client:
        generation = client.generate(PROMPT, max_tokens=4000, ignore_eos=True)
        next(generation)
        worker.kill()
        with pytest.raises(folio.Unavailable):
            generation.result()
    with folio.Client(manager=address(host, "manager")) as admin:
        until(lambda: admin.pools()[0].free_pages == admin.pools()[0].total_pages, 60, admin.pools)


def start_gateway(host, images, worker, *flags):
    """It reaches the worker as in a pod, through the network that it has in common with it."""
    gateway = host.run(images["folio-gateway"], "--listen=0.0.0.0:8000", "--worker=127.0.0.1:7000", *flags, name="gateway",
                       network_of=worker)  # fmt: skip
    until(lambda: gateway.read(f"{HTTP}/health") or gateway.process.poll() is not None, 60, gateway.words)
    return gateway


def test_a_gateway_serves_a_worker(host, images, manager):
    worker = start_worker(host, images, "worker", *ON_NETWORK)
    gateway = start_gateway(host, images, worker)
    body = json.dumps({"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})
    answer = json.loads(gateway.read(f"{HTTP}/v1/completions", body))
    assert "Paris" in answer["choices"][0]["text"], answer


def test_a_stream_of_a_gateway_outlives_its_worker(host, images, manager):
    worker = start_worker(host, images, "worker", *ON_NETWORK)
    start_worker(host, images, "other")
    gateway = start_gateway(host, images, worker, "--standby=unix:/run/folio/other.sock")
    asking = {"prompt": PROMPT, "max_tokens": 160, "ignore_eos": True, "temperature": 0.8, "seed": 7}

    def ask():
        return json.loads(gateway.read(f"{HTTP}/v1/completions", json.dumps(asking)))["choices"][0]["text"]

    expected = ask()
    with folio.Client(manager=address(host, "manager")) as admin, futures.ThreadPoolExecutor() as pool:
        text = pool.submit(ask)
        until(lambda: any(one.state == "decode" for one in admin.sequences()), 60, gateway.words)
        worker.kill()
        assert text.result() == expected
    assert "\nfolio:gateway_resumed_total 1\n" in gateway.read(f"{HTTP}/metrics")


def test_all_end_on_sigterm(host, images, manager):
    worker = start_worker(host, images, "worker", *ON_NETWORK)
    gateway = start_gateway(host, images, worker)
    for container in (gateway, worker, manager):
        container.signal(15)
        assert container.wait(60) == 0, container.words()
