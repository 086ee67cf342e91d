"""Upgrades and a drain of the node, while clients ask without a pause."""

import json
from concurrent import futures

import folio
import kube
from clients import LONG, PROMPT, Load, expected
from kube import NEXT


def image_of(pod):
    return pod["spec"]["containers"][0]["image"]


def test_upgrade_of_workers(release, note):
    """A rolling upgrade of the workers loses no request and changes no token"""
    release.workers(2)
    with Load(release.service()) as load:
        load.wait_for(3)
        release.upgrade(f"image.worker=folio-worker:{NEXT}")
        release.workers(2)
        load.wait_for(3)
    assert {image_of(pod) for pod in release.pods("worker")} == {f"localhost/folio-worker:{NEXT}"}
    assert not load.wrong and not load.failed, (load.wrong[:1], load.failed[:3])
    release.all_free()
    note(f"{load.right} requests during the upgrade to {NEXT}, all with the right tokens, none failed")


def test_upgrade_of_the_manager(release, note):
    """A stream that runs continues at the next manager when the manager is upgraded, and later requests succeed"""
    release.workers(2)
    address = release.service()
    whole = expected(address, **LONG)
    before = release.pods("manager")[0]["metadata"]["uid"]
    with Load(address) as load, futures.ThreadPoolExecutor() as threads:
        load.wait_for(3)
        with folio.Client(address, resume=90) as client:
            generation = client.generate(PROMPT, **LONG)
            next(generation)
            rest = threads.submit(generation.result)
            release.upgrade(f"image.manager=folio-manager:{NEXT}", "manager.drainTimeoutSeconds=5")
            result = rest.result()
        release.workers(2)
        load.wait_for(6, timeout=240)
    manager = release.pods("manager")[0]
    assert manager["metadata"]["uid"] != before and image_of(manager) == f"localhost/folio-manager:{NEXT}"
    assert not load.wrong
    statuses = {error.status.name for _, error in load.failed}
    assert statuses <= {"UNAVAILABLE", "ABORTED"}, load.failed
    assert tuple(result.tokens) == whole and result.finished.replays == 0
    release.all_free()
    note(f"all {len(whole)} tokens equal those of an undisturbed run, and none was computed again")
    if load.failed:
        first, last = load.failed[0][0], load.failed[-1][0]
        note(f"{len(load.failed)} other requests failed with {', '.join(sorted(statuses))}, over {last - first:.1f} s")
    note(f"{load.right} requests succeeded before and after, all with the right tokens")


def test_drain(release, note):
    """A drain of the node ends one worker and not both, because of the PodDisruptionBudget"""
    workers = {worker.name for worker in release.workers(2)}
    node = kube.get("nodes")["items"][0]["metadata"]["name"]
    with Load(release.service()) as load:
        load.wait_for(2)
        drain = kube.run(
            "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=20s",
            "--pod-selector=app.kubernetes.io/instance=folio", check=False,
        )  # fmt: skip
        left = workers & {pod["metadata"]["name"] for pod in release.pods("worker")}
        load.wait_for(2)
        kube.kubectl("uncordon", node)
    assert drain.returncode != 0 and "disruption budget" in drain.stdout + drain.stderr, drain
    assert len(left) == 1, f"of {workers} there are left {left}"
    assert not load.wrong and not load.failed, (load.wrong[:1], load.failed[:3])
    release.workers(2)
    release.all_free()
    note("the cluster has one node, so the evicted worker waits until the node takes pods again, and the other stays")
    note(f"{load.right} requests meanwhile, all with the right tokens, none failed")


def test_stream_survives_a_drain(release, note):
    """A stream continues in the other pod when its own is evicted"""
    address = release.service()
    workers = release.workers(2)
    whole = expected(address, **LONG)
    with folio.Client(workers[0].address, standby=[workers[1].address], resume=60) as client:
        generation = client.generate(PROMPT, **LONG)
        next(generation)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": workers[0].name, "namespace": release.namespace}}  # fmt: skip
        kube.kubectl(
            "create", "--raw", f"/api/v1/namespaces/{release.namespace}/pods/{workers[0].name}/eviction",
            "--filename=-", given=json.dumps(eviction),
        )  # fmt: skip
        tokens = tuple(generation.result().tokens)
    assert tokens == whole
    release.workers(2)
    note("it ended in its own pod within the drain timeout, or went to the other: all tokens are right")
