"""Rules of the cluster: Pod Security, NetworkPolicy, and what an uninstallation leaves."""

import json
import os
import pathlib
import signal

import folio
import kube
from clients import LONG, PROMPT, expected
from kube import MODEL, TAG


def pod(name, namespace, **container):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.37", **container}]},
    }  # fmt: skip


def refusal(spec):
    """The API server's words about a pod that it must not take."""
    done = kube.run("kubectl", "create", "--filename=-", "--dry-run=server", given=json.dumps(spec), check=False)
    assert done.returncode != 0, f"it was taken: {spec}"
    return done.stderr.strip()


def test_network_policy(release, note):
    """NetworkPolicy: which the release has, and whether this cluster enforces them"""
    policies = release.get("networkpolicies")["items"]
    assert {"folio", "folio-worker"} <= {policy["metadata"]["name"] for policy in policies}
    everything = next(policy["spec"] for policy in policies if policy["metadata"]["name"] == "folio")
    assert everything["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in everything
    host, port = release.workers(2)[0].address.split(":")
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strangers"}})
    kube.until(lambda: kube.kubectl("-n", "strangers", "get", "sa", "default", check=False), 30, "the account default")
    kube.apply(pod("knock", "strangers", command=["nc", "-w", "3", host, port, "-e", "/bin/true"]))
    try:
        phase = kube.until(
            lambda: (now := kube.get("pod", "knock", "--namespace=strangers")["status"]["phase"]) in ("Succeeded", "Failed")
            and now, 60, "the pod that knocks ends",
        )  # fmt: skip
    finally:
        kube.kubectl("delete", "namespace", "strangers", "--wait=false")
    enforced = os.environ.get("FOLIO_CLUSTER_ENFORCES") == "1"
    assert phase == ("Failed" if enforced else "Succeeded")
    note(f"{len(policies)} policies; a pod of another namespace " + (
        "cannot reach a worker" if enforced else "reaches a worker, because the network plug-in ptp enforces no policy"))


def test_pod_security(strict, note):
    """A privileged pod, one with hostPID and one with a hostPath are refused beside Folio"""
    strict.make_namespace()
    privileged = refusal(pod("privileged", strict.namespace, securityContext={"privileged": True}))
    assert 'violates PodSecurity "restricted' in privileged and "privileged" in privileged
    namespaces = pod("namespaces", strict.namespace)
    namespaces["spec"]["hostPID"] = True
    assert "host namespaces" in refusal(namespaces)
    volume = pod("volume", strict.namespace)
    volume["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": "/"}}]
    assert "hostPath" in refusal(volume)
    note(privileged.split("violates", 1)[1].strip()[:120])


def test_restricted_namespace(strict, note):
    """Topology `pod` runs at Pod Security level "restricted", and passes `helm test`"""
    strict.claim_of_the_model()
    strict.install("image.registry=localhost", "topology=pod", "worker.replicas=1", "manager.pool=512MiB", "manager.prefault=true",
                   "model.claim=model", f"model.path={pathlib.Path(MODEL).name}")  # fmt: skip
    strict.workers(1)
    said = strict.helm("test", "--timeout=3m")
    assert said.count("Phase:          Succeeded") == 1, said
    spec = strict.pods("worker")[0]["spec"]
    containers = spec["containers"] + spec["initContainers"]
    # The manager has taken the whole pool, so the worker's limit leaves it out.
    assert spec["containers"][0]["resources"]["limits"]["memory"] == "1Gi"
    note(f"containers {', '.join(container['name'] for container in containers)} in one pod, images {TAG}")


def test_worker_restarts_beside_its_manager(strict, note):
    """In topology `pod` a stream continues in the same pod, when the container of its worker was killed"""
    (worker,) = strict.workers(1)
    whole = expected(strict.service(), **LONG)
    with folio.Client(worker.address, resume=90) as client:
        generation = client.generate(PROMPT, **LONG)
        next(generation)
        os.kill(worker.pid(), signal.SIGKILL)
        tokens = tuple(generation.result().tokens)
    assert tokens == whole
    (after,) = strict.workers(1)
    assert after.uid == worker.uid
    note(f"all {len(whole)} tokens equal those of an undisturbed run")


def left(release):
    """Objects of a namespace that an uninstallation should have removed."""
    kinds = kube.kubectl("api-resources", "--verbs=list", "--namespaced", "--output=name").split()
    kinds = [kind for kind in kinds if not kind.startswith("events")]
    names = release.kubectl("get", ",".join(kinds), "--output=name", "--ignore-not-found").split()
    ours_alone = {"configmap/kube-root-ca.crt", "serviceaccount/default", "persistentvolumeclaim/model"}
    return sorted(set(names) - ours_alone)


def test_uninstall(release, strict, note):
    """`helm uninstall` leaves no object, no process and, except the journal, no file on the node"""
    for one in (release, strict):
        one.helm("uninstall", "--wait", "--timeout=3m")
        kube.until(lambda one=one: not left(one), 90, lambda one=one: left(one))
    programs = [entry for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]
    for entry in programs:
        try:
            name, groups = os.path.basename(os.readlink(entry / "exe")), (entry / "cgroup").read_text()
        except OSError:
            continue
        assert not (name.startswith("folio") and "kubepods" in groups), f"{name} still runs as {entry.name}"
    directory = pathlib.Path(f"/run/folio-pods/{release.namespace}-folio")
    # The next manager would continue from the journal.
    files = {file.name for file in directory.iterdir()} if directory.exists() else set()
    assert files <= {"state"}, files
    note("no object of the namespaces is left" + (
        f"; the directory {directory} stays on the node, with the manager's journal" if directory.exists() else ""))
