"""A Prometheus with the configuration of the Compose file reads the metrics of all daemons from their images.

The four containers share a network, in which the names of the Compose file lead to the loopback address.
"""

import json
import pathlib
import re
import subprocess
import urllib.parse

import folio
import pytest
from containers import USER, Host
from test_containers import HTTP, ON_NETWORK, address, start_gateway, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS, MORE = 24, 16  # by gRPC and by HTTP


class Prometheus:
    """The distribution's package, as an image that Host.run takes."""

    def __init__(self, folder):
        program = subprocess.run([ROOT / "tests/helm/promtool.sh"], check=True, capture_output=True, text=True).stdout.strip()
        self.root = folder / "root"
        subprocess.run([ROOT / "deploy/images/root.sh", f"{program}/prometheus", self.root], check=True)
        for name in ("prometheus", "etc/prometheus"):
            (self.root / name).mkdir()
        for name in ("prometheus.yaml", "alerts.yaml"):
            (self.root / "etc/prometheus" / name).write_text((ROOT / "deploy/images" / name).read_text())
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost manager worker gateway\n")
        self.config = {"User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/prometheus"], "Env": ["PATH=/usr/bin"]}
        self.mounts = [{"destination": "/prometheus", "type": "tmpfs", "source": "tmpfs", "options": [f"uid={USER}", "size=64m"]}]


@pytest.fixture
def host(images, model):
    with Host(model) as host:
        yield host


def ask(container, path, **parameters):
    """The data of an answer of Prometheus, or nothing while it does not answer."""
    text = container.read(f"http://127.0.0.1:9090/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
    return json.loads(text)["data"] if text else {}


def value(container, expression):
    """The value of the only series of an expression."""
    result = ask(container, "query", query=expression).get("result", [])
    return float(result[0]["value"][1]) if len(result) == 1 else None


def test_prometheus_reads_all(host, images, tmp_path):
    manager = host.run(
        images["folio-manager"], "--listen=unix:/run/folio/manager.sock", "--pool_bytes=512MiB", "--metrics_listen=0.0.0.0:7003",
        name="manager",
    )  # fmt: skip
    worker = host.run(
        images["folio-worker"], f"--model=/models/{host.model.name}", "--manager=unix:/run/folio/manager.sock",
        "--listen=unix:/run/folio/worker.sock", *ON_NETWORK, "--metrics_listen=0.0.0.0:7004", name="worker", network_of=manager,
    )  # fmt: skip
    prometheus = host.run(
        Prometheus(tmp_path), "--config.file=/etc/prometheus/prometheus.yaml", "--storage.tsdb.path=/prometheus",
        name="prometheus", network_of=manager,
    )  # fmt: skip
    until(lambda: (host.sockets / "worker.sock").exists() or worker.process.poll() is not None, 120, worker.words)
    gateway = start_gateway(host, images, manager, "--metrics_listen=0.0.0.0:7006")
    assert gateway.read(f"{HTTP}/v1/completions", json.dumps({"prompt": "One, two", "max_tokens": MORE, "ignore_eos": True}))
    with folio.Client(address(host, "worker")) as client:
        client.generate("The capital of France is", max_tokens=TOKENS, ignore_eos=True, policy="paged_eviction", budget=64).result()
    until(lambda: value(prometheus, "sum(folio:generation_tokens_total)") == TOKENS + MORE, 60, prometheus.words)
    until(lambda: value(prometheus, 'sum(up{job=~"folio-(manager|worker|gateway)"})') == 3, 60, prometheus.words)
    until(lambda: value(prometheus, "sum(folio:pool_pages)"), 60, prometheus.words)
    assert value(prometheus, "folio:serving") == value(prometheus, "folio:gateway_worker_serving") == 1
    assert value(prometheus, "folio:gateway_generation_tokens_total") == MORE
    assert value(prometheus, 'sum(folio:pool_pages{state="free"}) / sum(folio:pool_pages)') == 1
    check_rules(prometheus)
    # A rate needs two values.
    until(lambda: value(prometheus, "min(count_over_time(up[5m]) unless up == 0) >= 3"), 90, prometheus.words)
    check_dashboard(prometheus)


def check_rules(prometheus):
    """All alerts are loaded, and none fires."""
    rules = [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]]
    expected = re.findall(r"alert: (\w+)", (ROOT / "deploy/images/alerts.yaml").read_text())
    assert [rule["name"] for rule in rules] == expected and len(expected) > 10
    assert not [rule["name"] for rule in rules if rule["state"] == "firing"]


def check_dashboard(prometheus):
    """Each panel of the dashboard has series, because the daemons begin all common ones at 0."""
    panels = json.loads((ROOT / "helm/folio/files/dashboard.json").read_text())["panels"]
    empty = set()
    for panel in panels:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*").replace("$model_name", ".*")
            answer = ask(prometheus, "query", query=expression)
            assert answer, f"{panel['title']}: Prometheus refuses {expression}"
            if not answer["result"]:
                empty.add(panel["title"])
    assert not empty, f"without a series: {sorted(empty)}"
