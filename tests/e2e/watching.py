"""folioctl as an operator uses it, and a worker that makes as many events as one likes."""

import itertools
import json
import queue
import subprocess
import threading

from node import BIN, PATIENCE, wait_until
from stranger import PROTOCOL, fetch_descriptors
from stubs import kv_manager_pb2, kv_manager_pb2_grpc


def folioctl(node, *arguments, code=0):
    run = subprocess.run(
        [BIN / "folioctl", *arguments, "--address", node.manager_address], capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert run.returncode == code, f"{run.returncode}: {run.stdout}{run.stderr}"
    return run.stderr if code else run.stdout


class Follower:
    """`folioctl events --follow` with its lines as they come."""

    def __init__(self, node, *arguments):
        self.popen = subprocess.Popen(
            [BIN / "folioctl", "events", "--follow", "--output", "json", "--address", node.manager_address, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.events = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.popen.stdout:
            self.events.append(json.loads(line)["event"])

    def kinds(self):
        return [event["kind"].removeprefix("EVENT_KIND_").lower() for event in self.events]

    def wait_for(self, kind, timeout=PATIENCE):
        """The first event of that kind."""
        wait_until(lambda: kind in self.kinds(), timeout, f"{kind} in {self.kinds()}")
        return self.events[self.kinds().index(kind)]

    def end(self, timeout=PATIENCE):
        """Its exit code and what it said on stderr, once it has ended."""
        code = self.popen.wait(timeout)
        self.reader.join()
        with self.popen.stderr as errors:
            words = errors.read()
        self.popen.stdout.close()
        return code, words

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.reader.join()
        self.popen.stdout.close()
        self.popen.stderr.close()


class Refusals:
    """A worker that asks for what is refused, so that there are as many events as one likes. It holds no page."""

    def __init__(self, node):
        self.connection = None
        stub = kv_manager_pb2_grpc.KvManagerStub(node.connect(node.manager_address, node.manager))
        attached = stub.Attach(
            kv_manager_pb2.AttachRequest(protocol_version=PROTOCOL, worker_name="refusals", layout=node.pool().layout)
        )
        self.connection = fetch_descriptors(attached)
        self.outbox, self.steps = queue.SimpleQueue(), itertools.count(1)
        self.replies = stub.Session(iter(self.outbox.get, None))
        hello = kv_manager_pb2.SessionHello(worker_id=attached.worker_id, session_token=attached.session_token)
        self.send(hello=hello)

    def send(self, **request):
        self.outbox.put(kv_manager_pb2.SessionRequest(step=next(self.steps), **request))
        return next(self.replies)

    def make(self, count):
        """So many events, a multiple of 100."""
        opens = [kv_manager_pb2.OpenSequence(label="x" * 60) for _ in range(100)]
        for _ in range(count // 100):
            assert all(opened.code for opened in self.send(open=opens).opened)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.outbox.put(None)
        self.replies.cancel()
        self.connection.close()
