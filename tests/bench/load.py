#!/usr/bin/env python3
"""Many streams for a long time against one manager and two workers, with connections beside them that only cost.

  tests/bench/load.py --model FILE [--pool 6GiB] [--max_batch 32] [--streams 500] [--minutes 10] [--window 30] OUT.json

With --max_batch places in each worker, so that twice as many streams run:
  calm         these streams alone, three times: before, between and after the next two
  connections  the same streams, while 1,000 idle and 300 mute connections are held to each daemon
  line         the same streams, while ten times more clients wait in line
  crowd        as many clients at once, each with one request, until the last one is answered
With places for all of --streams, for --minutes:
  load         a client that has its answer asks again, beside as many idle and mute connections

Calm, connections and line are windows of --window seconds in the life of the same streams. They keep 256 tokens each, so that a step
costs the same in all windows, and each is compared with the mean of the calm ones beside it. Memory is anonymous memory, which has neither pages of
the pool nor the model's file. Its median in the second tenth of the load is compared with that in the last one, because
allocators give memory back when they like. The pages take up to 4 GiB. Run it on an idle machine. It exits with 1 and
says which bound was missed: streams slowed by 5 %, memory that grew by more than 5 % and 2 MiB, answers that
ended otherwise, or pages that did not come back. The programs are those of FOLIO_BIN (default build/bin)."""

import argparse
import asyncio
import contextlib
import datetime
import json
import pathlib
import random
import resource
import selectors
import socket
import statistics
import sys
import time

import grpc
from goodput import Answer, ask, ends_of, milliseconds, mixed_prompt, program, times_of
from metrics import ENDPOINT, Metrics
from node import Node, anonymous_bytes, cache
from stubs import inference_pb2, inference_pb2_grpc

WORKERS = ("one", "two")
IDLE, MUTE = 1000, 300
# The preface of HTTP/2 and an empty SETTINGS frame. With this a server takes the connection for a client's.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
TIMES_MORE = 10  # clients that wait, of those that run
LONG, LENGTHS = 6000, (16, 64, 200)  # tokens of a stream that must not end, and of others
KEPT = 256  # tokens of each stream in the windows
SLOWER_PERCENT, GROWTH_PERCENT, GROWTH_MIB = 5, 5, 2


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


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

    def begin(self, count, source, lengths, again=False, cache=None):
        """So many clients ask, each once or again and again."""
        self.tasks += [asyncio.create_task(self.client(at, source, lengths, again, cache)) for at in range(count)]

    async def client(self, at, source, lengths, again, cache):
        while True:
            self.answers.append(answer := Answer())
            most = source.choice(lengths)
            request = inference_pb2.GenerateRequest(input=mixed_prompt(source), max_tokens=most, ignore_eos=True, cache=cache)
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


async def window(running, seconds, name):
    """What the running streams saw in so many seconds from now."""
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    gaps = [gap for answer in running.answers for gap in answer.gaps(begun, begun + seconds)]
    row = {"part": name, "tokens_per_second": round(len(gaps) / seconds, 1), **milliseconds("inter_token", gaps)}
    say(f"window: {json.dumps(row)}")
    return row


async def windows(node, options, failed):
    """The five windows, in which the streams of a full batch run."""
    count = len(WORKERS) * options.max_batch
    source, waiting_source = random.Random(1), random.Random(2)
    async with Clients(node) as running:
        running.begin(count, source, (LONG,), cache=cache("streaming_llm", KEPT))
        while not all(answer.tokens > KEPT for answer in running.answers):
            assert not any(task.done() for task in running.tasks), f"windows: a stream ended, {ends_of(running.answers)}"
            await asyncio.sleep(0.1)
        rows = [await window(running, options.window, "calm")]
        async with Connections(node) as connections:
            rows.append(await window(running, options.window, "connections"))
            rows[-1] |= connections.counts()
        rows.append(await window(running, options.window, "calm"))
        async with Clients(node) as line:
            line.begin(TIMES_MORE * count, waiting_source, LENGTHS)
            rows.append(await window(running, options.window, "line"))
            waited = sum(answer.waited and not answer.times for answer in line.answers)
            rows[-1]["waiting"] = waited
            if waited < TIMES_MORE * count:
                failed.append(f"line: {waited} of {TIMES_MORE * count} clients waited to the window's end")
        rows.append(await window(running, options.window, "calm"))
        if any(task.done() for task in running.tasks):
            failed.append(f"windows: a stream ended, {ends_of(running.answers)}; give a shorter --window")
    return rows


def slower(rows, at, failed):
    """By how many percent the streams of that window were slower than those of the calm ones beside it."""
    before, during, after = (row["inter_token_p50_ms"] for row in rows[at - 1 : at + 2])
    if None in (before, during, after):
        failed.append(f"{rows[at]['part']}: too few tokens to compare; give a longer --window")
        return None
    percent = 100 * (during / statistics.fmean((before, after)) - 1)
    if percent >= SLOWER_PERCENT:
        failed.append(f"{rows[at]['part']}: streams were {percent:.1f} % slower, less than {SLOWER_PERCENT} % expected")
    return round(percent, 2)


async def crowd(node, options, failed):
    count = (1 + TIMES_MORE) * len(WORKERS) * options.max_batch
    begun = time.monotonic()
    async with Clients(node) as clients:
        clients.begin(count, random.Random(3), LENGTHS)
        while not all(task.done() for task in clients.tasks):
            await asyncio.wait(clients.tasks, timeout=30)
            say(f"crowd: {ends_of(clients.answers).get('OK', 0)} of {count} answered, {clients.tokens()} tokens")
        seconds = time.monotonic() - begun
        ends = ends_of(clients.answers)
    if ends != {"OK": count}:
        failed.append(f"crowd: {count} clients, and their calls ended with {ends}")
    row = {"clients": count, "seconds": round(seconds, 1), "tokens_per_second": round(clients.tokens() / seconds, 1)}
    return {**row, **times_of(clients.answers), "ends": ends}


def memory_of(node):
    processes = {"manager": node.manager, **node.workers}
    return {name: round(anonymous_bytes(process.pid) / 2**20, 2) for name, process in processes.items()}


def growth(readings, seconds, failed):
    """Per daemon: MiB in the second tenth and in the last one, and how much that is."""
    found = {}
    for name in readings[0][1]:
        early, late = (
            statistics.median(memory[name] for at, memory in readings if first * seconds <= at <= last * seconds)
            for first, last in ((0.1, 0.2), (0.9, 1.0))
        )
        found[name] = {"early_mib": round(early, 2), "late_mib": round(late, 2), "growth_mib": round(late - early, 2)}
        if late > early * (1 + GROWTH_PERCENT / 100) + GROWTH_MIB:
            failed.append(f"load: memory of {name} grew from {early:.1f} to {late:.1f} MiB")
    return found


async def load(node, options, failed):
    seconds, begun, readings, said = 60 * options.minutes, time.monotonic(), [], 0
    before = memory_of(node)
    async with Connections(node) as connections, Clients(node) as clients:
        clients.begin(options.streams, random.Random(4), LENGTHS, again=True)
        while (at := time.monotonic() - begun) < seconds:
            readings.append((at, await asyncio.to_thread(memory_of, node)))
            if at >= said:
                said += max(30, seconds / 20)
                say(f"load: {at:.0f} of {seconds:.0f} s, {ends_of(clients.answers)}, MiB {readings[-1][1]}")
            await asyncio.sleep(min(5, seconds / 100))
        tokens, ends = clients.tokens(), ends_of(clients.answers)
        running = sum(bool(answer.times) for answer in clients.answers if answer.end == "CANCELLED")
    if set(ends) - {"OK", "CANCELLED"}:
        failed.append(f"load: calls ended with {ends}")
    row = {"seconds": round(seconds), "running_at_the_end": running, "ends": ends, **connections.counts()}
    row |= {"tokens_per_second": round(tokens / seconds, 1), **times_of(clients.answers)}
    return {**row, "idle_memory_mib": before, "memory": growth(readings, seconds, failed)}


def preemptions(node):
    return sum(int(Metrics(node.workers[name])("folio:num_preemptions_total")) for name in WORKERS)


@contextlib.contextmanager
def daemons(options, max_batch, failed):
    """A manager and two workers. Whatever they do not survive is a bound that was missed."""
    flags = [*ENDPOINT, f"--max_batch={max_batch}", "--max_queue=100000", "--queue_timeout=2h"]
    with Node(pool=options.pool) as node:
        for name in WORKERS:
            node.start_worker(name, model=options.model, flags=flags)
        try:
            yield node
            node.assert_alive()
            node.assert_all_free(timeout=60)
        except AssertionError as error:
            failed.append(str(error))


def measure(options, record, failed):
    with daemons(options, options.max_batch, failed) as node:
        rows = record["windows"] = asyncio.run(windows(node, options, failed))
        record["slower_percent"] = {rows[at]["part"]: slower(rows, at, failed) for at in (1, 3)}
        if parked := preemptions(node):
            failed.append(f"windows: the pool ran dry {parked} times, so they do not compare; give a larger --pool")
        say(f"slower by percent: {record['slower_percent']}")
        record["crowd"] = asyncio.run(crowd(node, options, failed))
        say(f"crowd: {json.dumps(record['crowd'])}")
    with daemons(options, -(-options.streams // len(WORKERS)), failed) as node:
        record["load"] = {**asyncio.run(load(node, options, failed)), "preemptions": preemptions(node)}
        say(f"load: {json.dumps(record['load'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--pool", default="6GiB")
    parser.add_argument("--max_batch", type=int, default=32)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--window", type=float, default=30)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    given = {key: value for key, value in vars(options).items() if key not in ("model", "out")}
    record = {"date": datetime.date.today().isoformat(), "program": program(), **given, "missed": (failed := [])}
    try:
        measure(options, record, failed)
    finally:
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    if failed:
        sys.exit("\n".join(["bounds that were missed:", *failed]))


if __name__ == "__main__":
    main()
