#!/usr/bin/env python3
"""What folio-gateway costs: processor time for each streamed token, and time added to the first one.

    $(tests/python.sh) tests/bench/gateway_load.py [--streams 128 500] [--tokens 500] [--bin build/bin]

A manager, a worker with a tiny model of random weights, and a gateway run on this machine. Clients in one process read the streams
over plain sockets. Processor time is that of /proc, so that it hardly depends on what else runs. The time added to the first token
is the difference between the gateway's log and the worker's, request by request, and that of the client is beside it.
"""

import argparse
import json
import os
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Node:
    """The three processes. Without a model it is a tiny one of random weights."""

    def __init__(self, binaries, directory, gateway, gateway_flags, model=None):
        self.path, self.processes = directory, []
        if model is None:
            model = directory / "model"
            subprocess.run([binaries / "write_tiny_model", model, "llama", str(1 << 16)], check=True)
        sockets = {name: f"unix:{directory}/{name}.sock" for name in ("manager", "worker")}
        self.start(binaries / "folio-manager", f"--listen={sockets['manager']}", f"--export_socket={directory}/export.sock",
                   "--pool_bytes=4GiB")  # fmt: skip
        self.worker = self.start(binaries / "folio-worker", f"--listen={sockets['worker']}", f"--manager={sockets['manager']}",
                                 f"--model={model}", "--max_batch=1024", "--threads=1")  # fmt: skip
        self.wait_for("folio-worker", r"listening address=")
        self.gateway = self.start(gateway, "--listen=127.0.0.1:0", f"--worker={sockets['worker']}", *gateway_flags)
        self.port = int(self.wait_for(gateway.name, r"listening address=127\.0\.0\.1:(\d+)")[1])
        if gateway.name == "folio-gateway":
            self.wait_for("folio-gateway", "worker serves")

    def start(self, program, *flags):
        log = open(self.path / f"{program.name}.log", "w")
        self.processes.append(subprocess.Popen([program, *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        return self.processes[-1]

    def log(self, name):
        return (self.path / f"{name}.log").read_text()

    def wait_for(self, name, pattern):
        deadline = time.monotonic() + 120
        while not (match := re.search(pattern, self.log(name))):
            assert time.monotonic() < deadline, f"{name} does not say {pattern}: {self.log(name)}"
            time.sleep(0.05)
        return match

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)


def send(port, tokens, request_id="", **fields):
    body = json.dumps({"prompt": [5, 6, 7, 8], "max_tokens": tokens, "ignore_eos": True, "stream": True, **fields}).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nx-request-id: {request_id}\r\nConnection: close\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n".encode() + body)  # fmt: skip
    return connection


def run_streams(node, streams, tokens):
    """One line of the table."""
    before = processor_seconds(node.gateway), processor_seconds(node.worker)
    begin = time.monotonic()
    selector, open_ones, events = selectors.DefaultSelector(), 0, 0
    for _ in range(streams):
        connection = send(node.port, tokens)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
        open_ones += 1
    reads = 0
    while open_ones:
        for key, _ in selector.select():
            data = key.fileobj.recv(1 << 18)
            reads += 1
            events += data.count(b"data: ")
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                open_ones -= 1
    wall = time.monotonic() - begin
    count = streams * tokens
    # Several tokens may make one character, and the end has events of its own.
    assert streams < events <= count + 2 * streams, (events, count)
    gateway = processor_seconds(node.gateway) - before[0]
    worker = processor_seconds(node.worker) - before[1]
    return {"streams": streams, "tokens": count, "events": events, "tokens_per_s": round(count / wall), "gateway_s_per_1000": round(1000 * gateway / count, 5),
            "worker_s_per_1000": round(1000 * worker / count, 5), "tokens_per_read": round(count / reads, 2)}  # fmt: skip


def seconds(text):
    """Of a duration as the logs have it: 1.5s, 12.3ms, 400us."""
    match = re.fullmatch(r"(?:(\d+)m)?([\d.]+)(ms|us|ns|s)", text)
    return int(match[1] or 0) * 60 + float(match[2]) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[match[3]]


def first_tokens(node, name):
    found = re.findall(r"request_id=(ttft-\d+) .*?first_token=(\S+)", node.log(name))
    return {request: seconds(value) for request, value in found}


def run_first_tokens(node, requests):
    clients = []
    for number in range(requests):
        connection = send(node.port, 2, f"ttft-{number}")
        begin, data = time.perf_counter(), b""
        while b'"text":"' not in data:
            data += connection.recv(65536)
        clients.append(time.perf_counter() - begin)
        while connection.recv(65536):
            pass
        connection.close()
    client = {"requests": requests, "client_ms_median": round(1000 * statistics.median(clients), 3)}
    if not (node.path / "folio-gateway.log").exists():
        return client
    time.sleep(1)  # the logs are written in the background
    gateway, worker = first_tokens(node, "folio-gateway"), first_tokens(node, "folio-worker")
    added = [gateway[request] - worker[request] for request in gateway if request in worker]
    # The logs cut times to 100 us.
    return {**client, "added_ms_median": round(1000 * statistics.median(added), 3),
            "added_ms_mean": round(1000 * statistics.mean(added), 3),
            "worker_ms_median": round(1000 * statistics.median(worker.values()), 3)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 128, 500])
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--requests", type=int, default=300, help="for the time to the first token")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    parser.add_argument("--candidate", type=pathlib.Path, help="another program in the gateway's place (gateway_candidate)")
    parser.add_argument("--gateway_flags", nargs="*", default=[], help="such as threads=1, without the dashes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="folio-gateway.") as directory:
        binaries = arguments.bin.resolve()
        gateway = arguments.candidate.resolve() if arguments.candidate else binaries / "folio-gateway"
        node = Node(binaries, pathlib.Path(directory), gateway, [f"--{flag}" for flag in arguments.gateway_flags])
        try:
            run_streams(node, 4, 100)
            print(json.dumps(run_first_tokens(node, arguments.requests)), flush=True)
            for streams in arguments.streams:
                print(json.dumps(run_streams(node, streams, arguments.tokens)), flush=True)
        finally:
            node.end()


if __name__ == "__main__":
    sys.exit(main())
