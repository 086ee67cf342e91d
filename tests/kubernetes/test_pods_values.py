"""Values that the other steps do not use. These steps run with `run.sh --all`, because CI has no time for them."""

import functools
import hashlib
import http.server
import pathlib
import threading

import folio
import kube
import pytest
from clients import LONG, PROMPT, SHORT, expected
from kube import MODEL, NODE, Release


@pytest.fixture(scope="module")
def more():
    """In a namespace that refuses hostPath volumes."""
    return Release("folio-more", "baseline")


@pytest.fixture(scope="module")
def download():
    """The address of the model on a server of this machine, and its SHA-256."""
    path = pathlib.Path(MODEL)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=path.parent)
    server = http.server.ThreadingHTTPServer((NODE, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(path, "rb") as file:
        yield f"http://{NODE}:{server.server_port}/{path.name}", hashlib.file_digest(file, "sha256").hexdigest()
    server.shutdown()


def test_several_models(more, download, note):
    """Two models of a node: two ranks that read a claim, and a StatefulSet that downloads, with sockets behind claims"""
    url, sha256 = download
    more.make_namespace()
    more.claim_of_the_model()
    more.install(
        "image.registry=localhost", "sockets.type=claim", "manager.pool=512MiB", "manager.tcp.enabled=true", "service.headless=true",
        "models[0].name=pair", "models[0].model.claim=model", f"models[0].model.path={pathlib.Path(MODEL).name}",
        "models[0].worker.tensorParallel=2", "models[0].worker.replicas=1",
        "models[1].name=one", f"models[1].model.fetch.url={url}", f"models[1].model.fetch.sha256={sha256}",
        "models[1].worker.kind=StatefulSet", "models[1].worker.replicas=2",
    )  # fmt: skip
    said = more.helm("test", "--timeout=3m")
    assert said.count("Phase:          Succeeded") == 4, said
    pairs = more.workers(1, model="pair")
    ones = more.workers(2, model="one")
    assert sorted(one.name for one in ones) == ["folio-one-worker-0", "folio-one-worker-1"]
    for worker in (*pairs, *ones):
        with folio.Client(worker.address) as client:
            assert "Paris" in client.generate("The capital of France is", max_tokens=8, timeout=90).text()
    pools = [folio.Client(manager=f"{pod['status']['podIP']}:7002", timeout=20).pools() for pod in more.pods("manager")]
    assert sorted(len(pool[0].workers) for pool in pools) == [1, 2] and len(pools) == 2
    note(f"workers {', '.join(map(str, (*pairs, *ones)))}; two managers with a pool each; 4 test pods succeeded")


def test_a_named_standby(more, note):
    """A client that names a standby of the StatefulSet continues there when its worker is deleted"""
    first, second = sorted(more.workers(2, model="one"), key=str)
    whole = expected(first.address, **LONG)
    with folio.Client(first.address, standby=[second.address], resume=60) as client:
        generation = client.generate(PROMPT, **LONG)
        next(generation)
        more.kubectl("delete", "pod", first.name, "--grace-period=0", "--force", "--wait=false")
        assert tuple(generation.result().tokens) == whole
    more.workers(2, model="one")
    note(f"{first} was deleted, and all {len(whole)} tokens equal those of an undisturbed run")


def test_both_ranks_are_replaced(more, note):
    """A worker of two ranks is deleted, and a new one gives the same tokens"""
    (before,) = more.workers(1, model="pair")
    answer = expected(before.address, **SHORT)
    more.kubectl("delete", "pod", before.name, "--wait")
    (after,) = more.workers(1, model="pair")
    assert after.name != before.name and expected(after.address, **SHORT) == answer
    note(f"{before} drained, and {after} gives the same tokens")


def test_uninstall_with_claims(more, note):
    """`helm uninstall` also removes the volumes and claims of the sockets"""
    more.helm("uninstall", "--wait", "--timeout=3m")
    kube.until(lambda: not more.get("pods")["items"], 90, lambda: more.kubectl("get", "pods"))
    volumes = {volume["metadata"]["name"] for volume in kube.get("persistentvolumes")["items"]}
    claims = {claim["metadata"]["name"] for claim in more.get("persistentvolumeclaims")["items"]}
    assert not [name for name in volumes if name.endswith("-sockets")] and claims == {"model"}, (volumes, claims)
    note("the claim of the model, which an administrator made, is left")
