#!/usr/bin/env python3
"""Hundreds of streams for minutes: whether any is lost or mixed up, whether the gateway's memory grows, and what it adds beside gRPC.

    $(tests/python.sh) tests/bench/gateway_soak.py [--streams 500] [--seconds 300] [--probes 25]

A manager, a worker with the reference model (FOLIO_MODEL, or the one that deploy/fetch_model.sh finds) and a gateway run on this machine.
Each stream asks by HTTP for one prompt with one seed, again and again, so all its answers must be the same. A few more streams ask the
worker itself, with the prompts and seeds of the first ones: they must say the same, and their times stand beside those of HTTP.
"""

import argparse
import asyncio
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import folio
from gateway_load import ROOT, Node, processor_seconds

WORDS = ["ships", "rivers", "clocks", "maps", "bees", "castles", "trains", "stars", "bread", "salt", "glass", "wolves", "islands"]


def prompt_of(number):
    return f"{number}. A short story about {WORDS[number % len(WORDS)]} and {WORDS[number // len(WORDS) % len(WORDS)]}:"


class Stream:
    """The answers to one question, and when their pieces came."""

    def __init__(self, number, tokens):
        self.number, self.tokens = number, tokens
        self.texts, self.first, self.between, self.failures = [], [], [], []

    def note(self, sent, times, text):
        self.first.append(times[0] - sent)
        self.between += [after - before for before, after in zip(times, times[1:], strict=False)]
        self.texts.append(text)

    async def ask_http(self, port):
        body = json.dumps({"prompt": prompt_of(self.number), "seed": self.number, "temperature": 0.8, "max_tokens": self.tokens,
                           "ignore_eos": True, "stream": True}).encode()  # fmt: skip
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        sent, times, text, ended = time.monotonic(), [], "", False
        writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        async for line in reader:
            if line.startswith(b"data: [DONE]"):
                ended = True
            elif line.startswith(b"data: "):
                choice = json.loads(line[6:])["choices"][0]
                if choice["text"]:
                    times.append(time.monotonic())
                    text += choice["text"]
        writer.close()
        if not ended:
            raise RuntimeError("the stream was lost")
        self.note(sent, times, text)

    async def ask_grpc(self, client):
        sent, times, text = time.monotonic(), [], ""
        async for chunk in client.agenerate(prompt_of(self.number), seed=self.number, temperature=0.8, max_tokens=self.tokens,
                                            ignore_eos=True):  # fmt: skip
            if chunk.text:
                times.append(time.monotonic())
                text += chunk.text
        self.note(sent, times, text)

    async def run(self, ask, until):
        while time.monotonic() < until:
            try:
                await ask(self)
            except Exception as failure:  # told at the end, for each stream
                self.failures.append(repr(failure))


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def milliseconds(streams, what):
    values = [value for stream in streams for value in getattr(stream, what)]
    if not values:
        return None
    return {name: round(1000 * percentile(values, share), 1) for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}


async def watch_memory(process, samples):
    while True:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        samples.append(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024)
        await asyncio.sleep(2)


async def soak(node, arguments):
    begin = time.monotonic()
    until = begin + arguments.seconds
    http = [Stream(number, arguments.tokens) for number in range(arguments.streams)]
    grpc = [Stream(number, arguments.tokens) for number in range(arguments.probes)]
    memory, before = [], processor_seconds(node.gateway)
    watching = asyncio.create_task(watch_memory(node.gateway, memory))
    async with folio.Client(f"unix:{node.path}/worker.sock") as client:
        await asyncio.gather(*(one.run(lambda stream: stream.ask_http(node.port), until) for one in http),
                             *(one.run(lambda stream: stream.ask_grpc(client), until) for one in grpc))
    watching.cancel()
    took = time.monotonic() - begin
    answers = sum(len(one.texts) for one in http)
    # The texts of one question, by whichever way they came.
    texts = {number: set(http[number].texts) | set(grpc[number].texts if number < len(grpc) else ()) for number in range(len(http))}
    third = len(memory) // 3
    gateway = processor_seconds(node.gateway) - before
    return {
        "streams": len(http), "probes": len(grpc), "seconds": round(took), "answers": answers,
        "tokens": answers * arguments.tokens, "lost": sum(len(one.failures) for one in http + grpc),
        "mixed_up": sum(len(said) > 1 for said in texts.values()), "unasked": sum(not said for said in texts.values()),
        "distinct_texts": len({text for said in texts.values() for text in said}),
        "first_failures": [failure for one in http + grpc for failure in one.failures][:3],
        "gateway_mib": {"second_third": round(statistics.median(memory[third:2 * third]), 1),
                        "last_third": round(statistics.median(memory[2 * third:]), 1), "most": round(max(memory), 1)},
        "gateway_processor_share": round(gateway / took, 4),
        "between_tokens_ms": {"http": milliseconds(http, "between"), "grpc": milliseconds(grpc, "between")},
        "first_token_ms": {"http": milliseconds(http[:len(grpc)], "first"), "grpc": milliseconds(grpc, "first")},
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--probes", type=int, default=25, help="streams that ask the worker itself")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--tokens", type=int, default=24, help="of an answer")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    arguments = parser.parse_args()
    model = subprocess.run([ROOT / "deploy/fetch_model.sh"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="folio-soak.") as directory:
        binaries = arguments.bin.resolve()
        node = Node(binaries, pathlib.Path(directory), binaries / "folio-gateway", [], model=model)
        try:
            result = asyncio.run(soak(node, arguments))
        finally:
            node.end()
    print(json.dumps(result))
    return 1 if result["lost"] or result["mixed_up"] or result["unasked"] else 0


if __name__ == "__main__":
    sys.exit(main())
