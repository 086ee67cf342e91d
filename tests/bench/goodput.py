#!/usr/bin/env python3
"""Many clients at once against one manager and one worker: how many are answered, how fast, and how full the pool is.

  tests/bench/goodput.py --model FILE [--pool 128MiB] [--clients 16,64,256,1024] [--max_tokens 64,256,1000,4000] OUT.json
  FOLIO_BIN=DIR tests/bench/goodput.py --before [--retry 600] ... OUT.json

Each client asks once, all at the same time. The mixes differ in what clients ask for and what they need:
  short    a question of some 40 tokens, and an answer of some 10 tokens, though the client allows --max_tokens
  mixed    prompts of 20 to 400 tokens, max_tokens 64 to 800, answers that end after a tenth to all of it
Both mixes run with every number of --clients (short with max_tokens 1000), and short with 64 clients runs with every
--max_tokens. Two more rows are 16 clients with max_tokens 1000 in small pools. All of them must be answered in 64 MiB,
of which they need less than half, and in 24 MiB, of which they must hold 60 % at once.

The default pool holds 5,800 tokens of the reference model, at 23,040 bytes a token. A pool of 64 MiB holds 2,900, so
it would refuse 4,000 as a request that never fits. Both admissions run after one another on the same machine, so
their ratio is what counts. The programs are those of FOLIO_BIN (default build/bin). With --before they are programs
without waiting lines, which refuse what does not fit at once. With --retry their clients ask again for so many seconds.
Run it on an idle machine. It exits with 1 if a client has no answer, or if the pool of 24 MiB is not filled."""

import argparse
import asyncio
import collections
import datetime
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from metrics import ENDPOINT, Metrics  # noqa: E402
from node import BIN, Node  # noqa: E402
from stubs import inference_pb2, inference_pb2_grpc, types_pb2  # noqa: E402

MIXES = ("short", "mixed")
CHANNELS = 8  # the clients share connections, so that the machine's own limits do not decide
ENOUGH_POOL, SMALL_POOL, LEAST_PEAK = "64MiB", "24MiB", 0.6
MIXED_PROMPTS, MIXED_MOST = (20, 60, 150, 400), (64, 200, 800)
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds before a refused client asks again

Case = collections.namedtuple("Case", "mix clients most pool")  # `most` is max_tokens, None in the mix that has several


class Answer:
    """What one client saw: when it asked, when tokens came, whether it was told a place in a line, and the call's end.
    It grows while the call runs."""

    def __init__(self):
        self.asked, self.times, self.tokens = time.monotonic(), [], 0
        self.waited, self.refusals, self.end = False, 0, "CANCELLED"

    def first(self):
        return [self.times[0] - self.asked] if self.times else []

    def gaps(self, since=0.0, until=float("inf")):
        """Seconds between tokens, of those gaps that lie wholly inside the window."""
        inside = [at for at in self.times if since <= at <= until]
        return [after - before for before, after in zip(inside, inside[1:], strict=False)]


async def ask(stub, request, answer, enough=None):
    """One call. A client that has `enough` tokens ends it long before max_tokens."""
    call = stub.Generate(request, timeout=7200)
    try:
        async for event in call:
            answer.waited |= bool(event.prefill.queue_position)
            if not event.chunk.tokens:
                continue
            answer.times.append(time.monotonic())
            answer.tokens += len(event.chunk.tokens)
            if enough is not None and answer.tokens >= enough:
                break
        answer.end = "OK"
    except grpc.RpcError as error:
        answer.end = error.code().name
    finally:
        call.cancel()


def quantile(values, share):
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def milliseconds(name, values):
    """The median and the 99th percentile of seconds, or None where there is no value."""
    found = {share: quantile(values, share / 100) for share in (50, 99)}
    return {f"{name}_p{share}_ms": None if at is None else round(1000 * at, 2) for share, at in found.items()}


def times_of(answers):
    return {
        **milliseconds("ttft", [first for answer in answers for first in answer.first()]),
        **milliseconds("inter_token", [gap for answer in answers for gap in answer.gaps()]),
    }


def ends_of(answers):
    return dict(collections.Counter(answer.end for answer in answers))


def mixed_prompt(source, lengths=MIXED_PROMPTS):
    ids = [1000 + source.randrange(20000) for _ in range(source.choice(lengths))]
    return inference_pb2.Input(tokens=inference_pb2.TokenIds(ids=ids))


def program():
    """Which programs are measured."""
    found = subprocess.run([BIN / "folio-manager", "--version"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def request_of(case, source):
    """A request, and the number of tokens with which its client has enough."""
    if case.mix == "mixed":
        most = source.choice(MIXED_MOST)
        request = inference_pb2.GenerateRequest(input=mixed_prompt(source), max_tokens=most, ignore_eos=True)
        return request, max(4, int(most * source.choice((0.1, 0.1, 0.3, 1.0))))
    message = inference_pb2.ChatMessage(role="user", content="Answer in one word: what is the capital of France?")
    return inference_pb2.GenerateRequest(
        input=inference_pb2.Input(chat=inference_pb2.Chat(messages=[message])),
        max_tokens=case.most,
        sampling=types_pb2.SamplingParams(temperature=0),
    ), None


async def client(stub, request, enough, answer, retry):
    """One answer. A client that is refused asks again with growing pauses, if `retry` seconds leave time for it."""
    pause, random_pause = FIRST_PAUSE, random.Random()
    while True:
        await ask(stub, request, answer, enough)
        if answer.end != "RESOURCE_EXHAUSTED":
            return
        answer.refusals += 1
        if time.monotonic() + pause > answer.asked + retry:
            return
        await asyncio.sleep(pause * random_pause.uniform(0.8, 1.2))
        pause = min(2 * pause, LONGEST_PAUSE)


async def watch(node, shares):
    while True:
        pool = await asyncio.to_thread(node.pool)
        shares.append(pool.held_pages / pool.total_pages)
        await asyncio.sleep(0.02)


async def run_clients(node, case, retry):
    """(answers, seconds, shares of the pool that were held, one for each look at it)"""
    source = random.Random(f"{case.mix} {case.clients}")
    channels = [grpc.aio.insecure_channel(node.worker_address(), [("folio.channel", i)]) for i in range(CHANNELS)]
    stubs = [inference_pb2_grpc.InferenceStub(channel) for channel in channels]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    requests = [request_of(case, source) for _ in range(case.clients)]
    shares = []
    watching = asyncio.create_task(watch(node, shares))
    begun = time.monotonic()
    answers = [Answer() for _ in requests]
    await asyncio.gather(
        *(client(stubs[i % CHANNELS], *requests[i], answers[i], retry) for i in range(case.clients))
    )  # fmt: skip
    seconds = time.monotonic() - begun
    watching.cancel()
    for channel in channels:
        await channel.close()
    return answers, seconds, shares


def measure(options, admission, case):
    manager_flags, worker_flags = [], [f"--max_batch={options.max_batch}"]
    if admission != "before":
        manager_flags += [f"--admission={admission}"]
        worker_flags += [*ENDPOINT, f"--max_queue={2 * case.clients}", "--queue_timeout=2h"]
    with Node(pool=case.pool, manager_flags=manager_flags) as node:
        node.start_worker(model=options.model, flags=worker_flags)
        answers, seconds, shares = asyncio.run(run_clients(node, case, options.retry))
        preemptions = 0
        if admission != "before":
            preemptions = int(Metrics(node.workers["worker"])("folio:num_preemptions_total"))
    ends = ends_of(answers)
    answered = ends.pop("OK", 0)
    return {
        "admission": admission,
        "mix": case.mix,
        "clients": case.clients,
        "max_tokens": case.most or MIXED_MOST,
        "pool": case.pool,
        "answered": answered,
        "ended_otherwise": ends,
        "refusals": sum(answer.refusals for answer in answers),
        "seconds": round(seconds, 2),
        "answers_per_second": round(answered / seconds, 2),
        "tokens_per_second": round(sum(answer.tokens for answer in answers) / seconds, 1),
        **times_of(answers),
        "pool_peak": round(max(shares, default=0), 3),
        "pool_mean": round(statistics.fmean(shares or [0]), 3),
        "preemptions": preemptions,
    }


def missed(row):
    """The bounds that the row does not keep, in words. The programs of --before have none."""
    if row["admission"] == "before":
        return []
    name = f"{row['admission']}, {row['mix']}, {row['clients']} clients, max_tokens {row['max_tokens']}, {row['pool']}"
    found = []
    if row["answered"] < row["clients"]:
        found.append(f"{name}: {row['answered']} answered")
    if row["admission"] == "optimistic" and row["pool"] == SMALL_POOL and row["pool_peak"] < LEAST_PEAK:
        found.append(f"{name}: {row['pool_peak']:.0%} of the pool was held, {LEAST_PEAK:.0%} expected")
    return found


def cases_of(options):
    common = 64 if 64 in options.clients else options.clients[0]
    usual = 1000 if 1000 in options.max_tokens else options.max_tokens[-1]
    found = []
    if "short" in options.mixes:
        found += [Case("short", 16, 1000, pool) for pool in (ENOUGH_POOL, SMALL_POOL)]
        found += [
            Case("short", clients, most, options.pool)
            for clients in options.clients
            for most in options.max_tokens
            if clients == common or most == usual
        ]
    if "mixed" in options.mixes:
        found += [Case("mixed", clients, None, options.pool) for clients in options.clients]
    return found


def numbers(text):
    return [int(one) for one in text.split(",")]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--pool", default="128MiB")
    parser.add_argument("--max_batch", type=int, default=64)
    parser.add_argument("--clients", type=numbers, default=[16, 64, 256, 1024])
    parser.add_argument("--max_tokens", type=numbers, default=[64, 256, 1000, 4000])
    parser.add_argument("--mixes", type=lambda text: text.split(","), default=MIXES)
    parser.add_argument("--admission", type=lambda text: text.split(","), default=["optimistic", "reserve"])
    parser.add_argument("--before", action="store_true", help="the programs have no waiting lines")
    parser.add_argument("--retry", type=float, default=0, help="seconds for which refused clients ask again")
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    if unknown := set(options.mixes) - set(MIXES):
        parser.error(f"--mixes: {unknown} is not one of {MIXES}")
    if options.before:
        options.admission = ["before"]
    return options


def main():
    options = read_options()
    cases, begun = cases_of(options), time.monotonic()
    record = {"date": datetime.date.today().isoformat(), "program": program(), "max_batch": options.max_batch}
    record |= {"retry_seconds": options.retry, "rows": [], "missed": []}
    for at, case in enumerate(cases, 1):
        for admission in options.admission:
            row = measure(options, admission, case)
            record["rows"].append(row)
            record["missed"] += missed(row)
            options.out.write_text(json.dumps(record, indent=1) + "\n")  # each time: a run takes long
            print(f"[{time.monotonic() - begun:.0f} s, {at}/{len(cases)}] {json.dumps(row)}", flush=True)
    if record["missed"]:
        sys.exit("\n".join(["bounds that were missed:", *record["missed"]]))


if __name__ == "__main__":
    main()
