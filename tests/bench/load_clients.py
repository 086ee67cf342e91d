"""The clients and the connections of load.py."""

import asyncio
import selectors
import socket

import grpc
from goodput import MIXED_PROMPTS, Answer, ask, mixed_prompt
from stubs import inference_pb2, inference_pb2_grpc

WORKERS = ("one", "two")
SHORT_PROMPTS = (8, 16, 32)
IDLE, MUTE = 1000, 300
# The preface of HTTP/2 and an empty SETTINGS frame. With this a server takes the connection for a client's.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


class Clients:
    """Calls that run side by side over a few connections, dealt to the workers in turn. They end with the block."""

    def __init__(self, node):
        self.channels = [
            grpc.aio.insecure_channel(node.worker_address(name), [("folio.channel", i)]) for i in range(4) for name in WORKERS
        ]
        self.stubs = [inference_pb2_grpc.InferenceStub(channel) for channel in self.channels]
        self.answers, self.tasks = [], []

    async def __aenter__(self):
        await asyncio.gather(*(channel.channel_ready() for channel in self.channels))
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for channel in self.channels:
            await channel.close()

    def begin(self, count, source, lengths, again=False, cache=None, prompts=MIXED_PROMPTS):
        """So many clients ask, each once or again and again."""
        self.tasks += [asyncio.create_task(self.client(at, source, lengths, again, cache, prompts)) for at in range(count)]

    async def client(self, at, source, lengths, again, cache, prompts):
        while True:
            self.answers.append(answer := Answer())
            most = source.choice(lengths)
            prompt = mixed_prompt(source, prompts)
            request = inference_pb2.GenerateRequest(input=prompt, max_tokens=most, ignore_eos=True, cache=cache)
            await ask(self.stubs[at % len(self.stubs)], request, answer)
            if not again or answer.end != "OK":
                return

    def tokens(self):
        return sum(answer.tokens for answer in self.answers)


class Connections:
    """Idle and mute ones to each daemon. Those that a daemon closes are opened again, so that there are always as many."""

    def __init__(self, node):
        paths = [f"{node.path}/manager.sock", *(node.worker_address(name).removeprefix("unix:") for name in WORKERS)]
        self.kinds = [(path, hello) for path in paths for hello in [HELLO] * IDLE + [b""] * MUTE]
        self.selector, self.opened_again = selectors.DefaultSelector(), 0

    def connect(self, path, hello):
        one = socket.socket(socket.AF_UNIX)
        one.connect(path)
        one.sendall(hello)
        one.setblocking(False)
        self.selector.register(one, selectors.EVENT_READ, (path, hello))

    def refresh(self):
        for key, _ in self.selector.select(0):
            try:
                ended = not key.fileobj.recv(4096)
            except ConnectionError:
                ended = True
            if ended:
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self.connect(*key.data)
                self.opened_again += 1

    def counts(self):
        return {"connections": len(self.kinds), "opened_again": self.opened_again}

    async def keep(self):
        while True:
            await asyncio.sleep(1)
            await asyncio.to_thread(self.refresh)

    async def __aenter__(self):
        await asyncio.to_thread(lambda: [self.connect(*kind) for kind in self.kinds])
        self.keeping = asyncio.create_task(self.keep())
        return self

    async def __aexit__(self, *_):
        self.keeping.cancel()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()
