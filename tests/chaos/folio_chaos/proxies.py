"""A process that passes on connections and cuts them when it is told to: sockets between clients, workers and managers.

It is a process of its own so that its work does not hold up the clients' threads. It reads a line of JSON for each
command, ["open", path, target] or ["cut", path], and answers each with a line.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading

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

    def close(self):
        self.popen.stdin.close()
        self.popen.wait(60)
        self.popen.stdout.close()


def serve():
    open_ones = {}
    for line in sys.stdin:
        command, path, *rest = json.loads(line)
        if command == "open":
            open_ones[path] = proxy.Proxy(path, *rest)
            answer = open_ones[path].address
        else:
            answer = open_ones[path].cut()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
