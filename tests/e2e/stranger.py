"""A worker without a model, in a process of its own: it opens or claims a sequence, says what came of it, and can be killed.

It may also commit the prompt, as if it had computed it, and keep the plan to compact it for itself.
"""

import queue
import socket
import subprocess
import sys
import time

import grpc
from folio.v1 import admin_pb2, admin_pb2_grpc, kv_manager_pb2, kv_manager_pb2_grpc
from google.protobuf import json_format

PROTOCOL = 3
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.value[0]


class Stranger:
    """The process, which lives until it is killed. `answer` is the OpenResult or ClaimResult that it got.

    With a `prompt` of so many tokens it then has committed them and has a plan.
    """

    def __init__(self, node, prompt=0, **request):
        text = json_format.MessageToJson(kv_manager_pb2.SessionRequest(**request), indent=None)
        self.popen = subprocess.Popen(
            [sys.executable, __file__, node.manager_address, text, str(prompt)], stdout=subprocess.PIPE, text=True
        )
        line = self.popen.stdout.readline()
        assert line, f"the stranger ended: {self.popen.wait()}"
        reply = json_format.Parse(line, kv_manager_pb2.SessionReply())
        (self.answer,) = [*reply.opened, *reply.claimed]

    def kill(self):
        self.popen.kill()
        self.popen.wait()
        self.popen.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def fetch_descriptors(attached):
    """The worker's part at the export socket, which makes the manager watch this process."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(attached.export_socket)
    connection.send(attached.export_token.encode())
    text, descriptors, _, _ = socket.recv_fds(connection, 4096, 8)
    assert text == b"folio-pool 1" and len(descriptors) == 2, text
    return connection


def run(address, wanted, prompt):
    """Attaches as any worker does, asks for what is wanted until the answer is not "try again", and keeps its lease."""
    channel = grpc.insecure_channel(address)
    (pool,) = admin_pb2_grpc.AdminStub(channel).ListPools(admin_pb2.ListPoolsRequest(), timeout=60).pools
    manager = kv_manager_pb2_grpc.KvManagerStub(channel)
    attached = manager.Attach(
        kv_manager_pb2.AttachRequest(protocol_version=PROTOCOL, worker_name="stranger", layout=pool.layout), timeout=60
    )
    connection = fetch_descriptors(attached)
    hello = kv_manager_pb2.SessionHello(worker_id=attached.worker_id, session_token=attached.session_token)
    outbox = queue.SimpleQueue()
    outbox.put(kv_manager_pb2.SessionRequest(hello=hello))
    outbox.put(wanted)

    def requests():
        step = 0
        while True:
            request = kv_manager_pb2.SessionRequest()
            try:
                request.CopyFrom(outbox.get(timeout=attached.lease_ttl_ms / 3000))
            except queue.Empty:
                pass  # a heartbeat
            step += 1
            request.step = step
            yield request

    answered = None
    for reply in manager.Session(requests()):
        assert not reply.failed, reply.failed
        answers = [*reply.opened, *reply.claimed]
        if answers and answers[0].code == UNAVAILABLE:
            time.sleep(0.05)
            outbox.put(wanted)
        elif answers and answers[0].code == 0 and prompt:
            answered, (answer,) = reply, answers
            commit = kv_manager_pb2.CommitTokens(
                sequence_id=answer.sequence_id, lease_epoch=answer.lease_epoch, logical_length=prompt
            )
            outbox.put(kv_manager_pb2.SessionRequest(commit=[commit]))
        elif answers:
            print(json_format.MessageToJson(reply, indent=None), flush=True)
        elif reply.plans:
            print(json_format.MessageToJson(answered, indent=None), flush=True)
    connection.close()


if __name__ == "__main__":
    run(sys.argv[1], json_format.Parse(sys.argv[2], kv_manager_pb2.SessionRequest()), int(sys.argv[3]))
