"""kubectl and helm as functions, a release of the chart as an object, and the processes of its pods."""

import json
import os
import pathlib
import subprocess
import time

import folio

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/folio"
# run.sh sets these: a cluster that is up, with the images loaded under two tags.
CONFIG = os.environ.get("KUBECONFIG", "") if os.environ.get("FOLIO_CLUSTER") else ""
MODEL = os.environ.get("FOLIO_MODEL", "")
NODE = "10.87.0.1"  # the node's address, which cluster.sh gives it
TAG, NEXT = os.environ.get("FOLIO_IMAGES_TAG", ""), os.environ.get("FOLIO_IMAGES_NEXT", "")


def run(*command, check=True, timeout=420, given=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, input=given)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def kubectl(*arguments, **options):
    return run("kubectl", *arguments, **options).stdout.strip()


def get(*arguments):
    return json.loads(kubectl("get", *arguments, "--output=json"))


def apply(*objects):
    kubectl("apply", "--filename=-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def helm(*arguments, **options):
    return run("helm", *arguments, **options).stdout


def until(condition, timeout, what):
    """Waits until `condition` gives a value that is true, and returns it."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what() if callable(what) else what}"
        time.sleep(0.1)
    return value


class Worker:
    """The pod of a worker, and its process as this machine sees it."""

    def __init__(self, pod):
        self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.address = f"{pod['status']['podIP']}:7000"

    def __repr__(self):
        return self.name

    def pid(self, program="folio-worker"):
        """The process of that program whose control group is the pod's."""
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and os.path.basename(os.readlink(process / "exe")) == program:
                    groups = (process / "cgroup").read_text()
                    if self.uid in groups or self.uid.replace("-", "_") in groups:
                        return int(process.name)
            except OSError:
                continue  # it has ended, or is a thread of the kernel
        raise AssertionError(f"{self.name} has no process {program}")

    def ticks(self):
        """Processor time of its process so far."""
        fields = pathlib.Path(f"/proc/{self.pid()}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


class Release:
    """A release of the chart in a namespace of its own."""

    def __init__(self, namespace, level):
        self.namespace, self.level, self.values = namespace, level, []

    def make_namespace(self):
        labels = {"pod-security.kubernetes.io/enforce": self.level}
        apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels}})
        # The first pod of a namespace needs the account that a controller makes.
        until(lambda: self.kubectl("get", "serviceaccount", "default", check=False), 30, "the account default")

    def claim_of_the_model(self):
        """Makes a volume and the claim `model`, as an administrator would, which a namespace at level "restricted" may use."""
        name = f"{self.namespace}-model"
        apply(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
             "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], "storageClassName": "",
                      "hostPath": {"path": str(pathlib.Path(MODEL).parent)},
                      "claimRef": {"namespace": self.namespace, "name": "model"}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "model", "namespace": self.namespace},
             "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeName": name,
                      "resources": {"requests": {"storage": "1Gi"}}}},
        )  # fmt: skip

    def kubectl(self, *arguments, **options):
        return kubectl(f"--namespace={self.namespace}", *arguments, **options)

    def get(self, *arguments):
        return get(f"--namespace={self.namespace}", *arguments)

    def helm(self, verb, *arguments, **options):
        return helm(verb, "folio", *arguments, f"--namespace={self.namespace}", **options)

    def install(self, *values):
        self.values = [f"--set={value}" for value in values]
        return self.helm("install", CHART, *self.values, "--wait", "--timeout=5m")

    def upgrade(self, *values):
        """Takes more values beside those of the installation, and waits until the new pods serve."""
        self.values += [f"--set={value}" for value in values]
        return self.helm("upgrade", CHART, *self.values, "--wait", "--timeout=5m")

    def pods(self, component, model=None):
        """Pods that are not on their way out, oldest first, of all models or of one."""
        selector = f"app.kubernetes.io/component={component}" + (f",folio/model={model}" if model else "")
        listed = self.get("pods", f"--selector={selector}")["items"]
        alive = [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def workers(self, count=2, model=None):
        """The workers, as soon as `count` of them serve."""

        def ready(pod):
            return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))

        def serving():
            pods = [pod for pod in self.pods("worker", model) if ready(pod)]
            return pods if len(pods) == count else None

        return [Worker(pod) for pod in until(serving, 240, lambda: self.kubectl("get", "pods", "--output=wide"))]

    def service(self, name="folio"):
        """Address of a Service inside the cluster."""
        spec = self.get("service", name)["spec"]
        return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"

    def manager(self):
        """A client of the manager through its socket on the node, where this program runs."""
        return folio.Client(manager=f"unix:/run/folio-pods/{self.namespace}-folio/manager.sock", timeout=20)

    def pool(self):
        with self.manager() as manager:
            return manager.pools()[0]

    def all_free(self):
        return until(lambda: (pool := self.pool()).free_pages == pool.total_pages, 90, lambda: f"pages free: {self.pool()}")

    def diagnosis(self):
        """The things that a person would look at first when a step has failed."""
        parts = [
            self.kubectl("get", "pods,daemonsets,deployments", "--output=wide", check=False),
            self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False)[-6000:],
        ]
        for pod in kubectl("get", "pods", f"--namespace={self.namespace}", "--output=name", check=False).split():
            logs = self.kubectl("logs", pod, "--all-containers", "--tail=15", "--prefix", check=False)
            parts.append(f"{pod}\n{logs}")
        return "\n\n".join(parts)
