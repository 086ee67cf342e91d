"""A process that passes on connections, and cuts or holds them up when it is told to: sockets between clients, workers and managers.

It is a process of its own so that its work does not hold up the clients' threads. It reads a line of JSON for each
command, ["open", path, target], ["cut", path], ["delay", path, seconds] or ["stall", path, from_client], and answers each with a
line.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import proxy


class Proxies:
    """The process. Any thread may call."""

    def __init__(self):
        self.lock = threading.Lock()
        self.popen = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(pathlib.Path(proxy.__file__).parent)},
        )  # fmt: skip

    def tell(self, *command):
        with self.lock:
            self.popen.stdin.write(json.dumps(command) + "\n")
            self.popen.stdin.flush()
            return json.loads(self.popen.stdout.readline())

    def open(self, path, target):
        """Listens at the path, and gives the address."""
        return self.tell("open", str(path), target)

    def cut(self, path):
        """Ends all connections through that path, and gives their number."""
        return self.tell("cut", str(path))

    def delay(self, path, most):
        """Bytes through that path wait for up to `most` seconds from now on, in their order. With 0 none waits."""
        self.tell("delay", str(path), most)

    def stall(self, path, from_client):
        """No byte of the clients, or of the server, passes through that path from now on. With None all pass again."""
        self.tell("stall", str(path), from_client)

    def close(self):
        self.popen.stdin.close()
        self.popen.wait(60)
        self.popen.stdout.close()


class SlowProxy(proxy.Proxy):
    """One that can hold up what passes. Each direction of a connection has a thread, so that bytes keep their order."""

    def __init__(self, *arguments):
        self.most = 0.0
        # Each may be passed on while its event is set, by whether they are of the client.
        self.passes = {True: threading.Event(), False: threading.Event()}
        self.stall(None)
        super().__init__(*arguments)

    def stall(self, from_client):
        for direction, event in self.passes.items():
            event.clear() if direction is from_client else event.set()

    def before(self, data, from_client):
        if self.most:
            time.sleep(random.uniform(0, self.most))
        self.passes[from_client].wait()


def serve():
    open_ones = {}
    for line in sys.stdin:
        command, path, *rest = json.loads(line)
        answer = None
        if command == "open":
            open_ones[path] = SlowProxy(path, *rest)
            answer = open_ones[path].address
        elif command == "cut":
            answer = open_ones[path].cut()
        elif command == "delay":
            (open_ones[path].most,) = rest
        else:
            open_ones[path].stall(*rest)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
