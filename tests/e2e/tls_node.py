"""A manager and its workers that also listen by TCP, with TLS."""

import re

from node import Node
from stubs import admin_pb2_grpc

PROMPT = {"tokens": list(range(1, 40)), "max_tokens": 48, "ignore_eos": True}


def port_of(process, words="listening"):
    """The address of TCP that a line of its log has after these words. The daemon has chosen the port."""
    process.says(f"{words} address=127.0.0.1:")
    return re.search(rf"\b{words} address=(127\.0\.0\.1:\d+)", process.words())[1]


class TlsNode(Node):
    """`flags` are those of the encryption, which both daemons have unless a worker has its own. The manager has ports for workers
    and for operators. The stubs use Unix sockets, and so do the workers."""

    def __init__(self, flags, pool="8MiB"):
        self.tls_flags = [*flags]
        super().__init__(pool=pool, manager_flags=[*flags, "--listen=127.0.0.1:0"])
        self.admin = admin_pb2_grpc.AdminStub(self.connect(self.admin_address, self.manager))

    def start_manager(self):
        self.admin_address = f"unix:{self.path}/admin.sock"
        self.manager_arguments.append(f"--admin_listen={self.admin_address},127.0.0.1:0")
        super().start_manager()

    def launch_worker(self, name, *arguments, flags=(), **options):
        own = [] if any(flag.startswith("--tls_cert=") for flag in flags) else self.tls_flags
        return super().launch_worker(name, *arguments, flags=["--listen=127.0.0.1:0", *own, *flags], **options)

    def start_worker(self, name="worker", flags=(), **options):
        return self.serving(name, self.launch_worker(name, flags=flags, **options))

    def worker_port(self, name="worker"):
        """host:port of a worker."""
        return port_of(self.workers[name])

    def manager_port(self):
        """host:port of the manager for workers."""
        return port_of(self.manager)

    def operators_port(self):
        """host:port of the manager for operators."""
        return port_of(self.manager, "listening for operators")
