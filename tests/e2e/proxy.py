"""A Unix socket between a client and its server, which sees when the client leaves and can cut connections."""

import socket
import threading


class Proxy:
    """Passes the bytes of each connection to the socket that was `target` when it began."""

    def __init__(self, path, target):
        self.address, self.target, self.left = f"unix:{path}", target, 0
        self.lock, self.passing = threading.Lock(), set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.target.removeprefix("unix:"))
            except OSError:  # as if nothing listened here either
                server.close()
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
