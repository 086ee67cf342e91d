"""What a daemon tells Prometheus."""

import urllib.request

from node import wait_until
from prometheus_client.parser import text_string_to_metric_families

ENDPOINT = ["--metrics_listen=127.0.0.1:0"]


def asked(worker):
    """Requests that a worker has got and not ended."""
    metrics = Metrics(worker)
    return metrics("folio:num_requests_running") + metrics("folio:num_requests_waiting")


class Metrics:
    """The metrics of one daemon at one moment. A sample is asked for by its name and labels; the model's name may be left out."""

    def __init__(self, process):
        lines = wait_until(
            lambda: [line for line in process.words().splitlines() if "listening for metrics" in line],
            60, "the address of the metrics",
        )  # fmt: skip
        self.address = lines[-1].split("address=")[1].strip()
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=60) as answer:
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
