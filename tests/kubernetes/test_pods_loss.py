"""A worker that decodes is lost: its stream continues in another pod, token for token."""

import os
import signal
import time

import folio
import pytest
from clients import LONG, PROMPT, expected


def busiest(workers):
    """The worker that computes, told by processor time. (The Service hides which pod a client has reached.)"""
    before = {worker: worker.ticks() for worker in workers}
    time.sleep(0.5)
    return max(workers, key=lambda worker: worker.ticks() - before[worker])


def force_delete(release, worker):
    release.kubectl("delete", "pod", worker.name, "--grace-period=0", "--force", "--wait=false")


def kill(release, worker):
    os.kill(worker.pid(), signal.SIGKILL)


def stop(release, worker):
    """The manager may not kill it, because it is in another container. The liveness probe ends it."""
    os.kill(worker.pid(), signal.SIGSTOP)


ENDS = {"kubectl delete --grace-period=0 --force": force_delete, "SIGKILL": kill, "SIGSTOP (the liveness probe ends it)": stop}


@pytest.mark.parametrize("how", ENDS)
def test_stream_continues_in_another_pod(release, note, how):
    """A worker that decodes is lost, and its stream continues in the other pod"""
    workers = release.workers(2)
    address = release.service()
    whole = expected(address, **LONG)
    with folio.Client(address, resume=90) as client:
        generation = client.generate(PROMPT, **LONG)
        tokens = []
        for chunk in generation:
            tokens += chunk.tokens
            if len(tokens) >= 100:
                break
        lost = busiest(workers)
        began = len(tokens)
        ENDS[how](release, lost)
        cut = time.monotonic()
        result = generation.result()
        took = time.monotonic() - cut
    assert tuple(result.tokens) == whole
    assert result.finished.reason == "length"
    with release.manager() as manager:
        assert manager.pools()[0].orphans == 0
    release.all_free()
    release.workers(2)
    note(f"{how} of {lost} after {began} of {len(whole)} tokens; all {len(whole)} equal those of an undisturbed run, the last "
         f"{took:.1f} s later")  # fmt: skip
