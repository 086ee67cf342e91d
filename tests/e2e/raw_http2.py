"""A client of HTTP/2 that answers PINGs and takes no answer."""

import socket
import struct
import threading

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
ACK = END_STREAM = 1
END_HEADERS = 4
INITIAL_WINDOW_SIZE = 4


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """Without indexing and compression."""
    return b"\0" + b"".join(struct.pack("B", len(text)) + text for text in (name, value))


class Unwilling:
    """A connection whose window of flow control is 0, so that no byte of an answer may be sent. `ended` has the streams of calls
    that the server has ended."""

    def __init__(self, address):
        self.ended, self.closed, self.next = set(), False, 1
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(address.removeprefix("unix:"))
        self.lock = threading.Lock()
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, payload=struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def call(self, method, times):
        """Begins unary calls with an empty request."""
        names = {
            ":method": "POST", ":scheme": "http", ":path": method, ":authority": "test",
            "content-type": "application/grpc", "te": "trailers",
        }  # fmt: skip
        headers = b"".join(header(name.encode(), value.encode()) for name, value in names.items())
        for _ in range(times):
            self.send(
                frame(HEADERS, END_HEADERS, self.next, headers) + frame(DATA, END_STREAM, self.next, bytes(5))
            )
            self.next += 2

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the server has closed")
            data += more
        return data

    def read(self):
        try:
            while True:
                head = self.exactly(9)
                payload = self.exactly(int.from_bytes(head[:3], "big"))
                kind, flags = head[3], head[4]
                if kind == PING and not flags & ACK:
                    self.send(frame(PING, ACK, payload=payload))
                elif kind == SETTINGS and not flags & ACK:
                    self.send(frame(SETTINGS, ACK))
                elif kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM):
                    self.ended.add(int.from_bytes(head[5:], "big"))
                elif kind == GOAWAY:
                    self.closed = True
        except OSError:
            self.closed = True

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.reader.join()
        self.socket.close()
