"""The chart on a cluster: what a newcomer does first. The steps of these files share a release, so they need their order."""

import json
import re
import urllib.request

import folio
import kube
from clients import PROMPT
from kube import MODEL, TAG


def test_install(release, note):
    """`helm install` with two values: the registry and the model"""
    release.make_namespace()
    said = release.install("image.registry=localhost", f"model.hostPath={MODEL}")
    assert "STATUS: deployed" in said
    assert [worker.name for worker in release.workers(2)] and len(release.pods("manager")) == 1
    note(f"one manager and two workers serve, images {TAG}")


def test_helm_test(release, note):
    """`helm test` generates text and asks for the cache"""
    said = release.helm("test", "--timeout=3m")
    assert said.count("Phase:          Succeeded") == 2, said
    note("both test pods succeeded: one generated text through the Service, one asked the manager")


def test_generation_through_the_service(release, note):
    """Text through the Service's address"""
    with folio.Client(release.service()) as client:
        text = client.generate("The capital of France is", max_tokens=8, timeout=60).text()
    assert "Paris" in text
    note(f"{release.service()} answered {text!r}")


def inspect_in_a_pod(release, sequence):
    """Output of folioctl in a pod of its own that sees the node's socket directory."""
    directory = f"/run/folio-pods/{release.namespace}-folio"
    container = {
        "name": "folioctl",
        "image": f"localhost/folioctl:{TAG}",
        "args": ["sequence", str(sequence), "--timeout=20s"],
        "volumeMounts": [{"name": "sockets", "mountPath": "/run/folio", "readOnly": True}],
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "sockets", "hostPath": {"path": directory}}],
    }
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "look", "namespace": release.namespace}, "spec": spec})
    try:
        kube.until(
            lambda: release.get("pod", "look")["status"]["phase"] in ("Succeeded", "Failed"), 60,
            lambda: release.kubectl("describe", "pod", "look"),
        )  # fmt: skip
        assert release.get("pod", "look")["status"]["phase"] == "Succeeded", release.kubectl("logs", "look")
        return release.kubectl("logs", "look")
    finally:
        release.kubectl("delete", "pod", "look", "--grace-period=0", "--force")


def test_page_map(release, note):
    """folioctl in a pod shows the pages of a running sequence"""
    with folio.Client(release.service()) as client:
        with client.generate(PROMPT, max_tokens=4000, ignore_eos=True, policy="paged_eviction", budget=64) as generation:
            next(generation)
            shown = inspect_in_a_pod(release, generation.started.sequence_id)
    # Layers that keep the same share a line.
    layers = re.findall(r"^\s*(\d+(?:-\d+)?)\s+\d+\s+\|", shown, re.M)
    assert layers and layers[0].startswith("0") and layers[-1].endswith("29"), shown
    note(next(line.strip() for line in shown.splitlines() if "|" in line)[:90])


def metrics_of(address):
    """The values of a pod's metrics, by name and labels as Prometheus reads them."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def test_metrics(release, note):
    """Both daemons serve metrics to other pods, with the default values"""
    [manager] = release.pods("manager")
    pool = metrics_of(f"{manager['status']['podIP']}:7003")
    assert pool["folio:attached_workers"] == 2
    generated = 0.0
    for worker in release.workers(2):
        values = metrics_of(worker.address.replace(":7000", ":7004"))
        assert any(name.startswith("folio:serving{") and value == 1 for name, value in values.items())
        generated += sum(value for name, value in values.items() if name.startswith("folio:generation_tokens_total"))
    assert generated > 0
    note(f"{len(pool)} values of the manager; the workers say that they generated {generated:.0f} tokens")


def memory_of(pid):
    """Inodes of the shared memory that a process has mapped or holds open: (device, inode) of each memfd."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/memfd:"):
                found.add((fields[3], fields[4]))
    return found


def test_descriptors_cross_pods(release, note):
    """Two worker pods have mapped the memory of one manager pod"""
    workers = release.workers(2)
    pool = release.pool()
    assert len(pool.workers) == 2
    manager = kube.Worker(release.pods("manager")[0])
    pids = {pod: pod.pid("folio-manager" if pod is manager else "folio-worker") for pod in (manager, *workers)}
    shared = set.intersection(*(memory_of(pid) for pid in pids.values()))
    assert shared, json.dumps({str(pod): sorted(memory_of(pid)) for pod, pid in pids.items()})
    note(f"{len(shared)} regions of memory are in all three pods; each pod has its own pid, mount, network and ipc namespaces")
