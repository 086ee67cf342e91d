"""A socket between a client and its server, which sees when the client leaves and can cut connections."""

import socket
import threading


def dial(address):
    """A connection to unix:/path or host:port. Raises OSError if nothing listens there."""
    if not address.startswith("unix:"):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)))
    end = socket.socket(socket.AF_UNIX)
    try:
        end.connect(address.removeprefix("unix:"))
    except OSError:
        end.close()
        raise
    return end


class Proxy:
    """Passes the bytes of each connection to the address that was `target` when it began. It listens at a Unix socket, or at a
    port of this host if `path` is None."""

    def __init__(self, path, target):
        self.target, self.left = target, 0
        self.lock, self.passing = threading.Lock(), set()
        if path is None:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        else:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(path))
            self.listener.listen()
            self.address = f"unix:{path}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = dial(self.target)
            except OSError:  # as if nothing listened here either
                client.close()
                continue
            with self.lock:
                self.passing |= {client, server}
            threading.Thread(target=self.pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, False), daemon=True).start()

    def pass_on(self, source, sink, from_client):
        try:
            while data := source.recv(65536):
                self.before(data, from_client)
                sink.sendall(data)
        except OSError:
            pass
        self.left += from_client
        self.end({source, sink})

    def before(self, data, from_client):
        """Runs before bytes are passed on, which wait for its end."""

    def end(self, ends):
        with self.lock:
            self.passing -= ends
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Ends all connections at once, and says how many there were."""
        with self.lock:
            ends = set(self.passing)
        self.end(ends)
        return len(ends) // 2

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
