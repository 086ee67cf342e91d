"""folioctl doctor and support-bundle against real processes."""

import contextlib
import json
import tarfile

from stubs import inference_pb2


@contextlib.contextmanager
def running(node, label):
    request = inference_pb2.GenerateRequest(label=label, max_tokens=6000, ignore_eos=True)
    request.input.text = "Count: 1, 2, 3,"
    request.cache.policy.paged_eviction.SetInParent()
    request.cache.budget_tokens = 64
    call = node.stub.Generate(request)
    next(event for event in call if event.HasField("chunk"))
    try:
        yield
    finally:
        call.cancel()


def test_doctor_and_support_bundle(nothing_lost, folioctl, tmp_path):
    found = json.loads(folioctl("doctor", "--output", "json"))
    assert found["failed"] == 0, found
    names = [check["name"] for check in found["checks"]]
    assert {"manager", "worker", "model", "versions", "clock", "drain", "line"} <= set(names)
    assert "check" in folioctl("doctor").splitlines()[0]
    path = tmp_path / "bundle.tar.gz"
    with running(nothing_lost, "bundle"):
        folioctl("support-bundle", path)
    with tarfile.open(path) as archive:
        files = {member.name.split("/")[1]: archive.extractfile(member).read().decode() for member in archive}
    assert set(files) == {
        "version.txt", "doctor.json", "manager.json", "pools.json", "workers.json", "tenants.json", "sequences.json",
        "model.json", "events.jsonl", "flags.txt", "host.txt",
    }  # fmt: skip
    assert json.loads(files["sequences.json"])["sequences"][0]["label"] == "bundle"
    assert f"--listen={nothing_lost.manager_address}" in files["flags.txt"]
    assert "Count: 1" not in "".join(files.values())
    assert all(json.loads(line) for line in files["events.jsonl"].splitlines())
