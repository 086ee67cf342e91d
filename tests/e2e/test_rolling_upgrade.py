"""Both workers and the manager are replaced one after another, as docs/upgrading.md says, while clients stream all the time:
no request of the SDK fails, none over HTTP either except new ones while no worker has a manager, and each answer equals
the calm one."""

import itertools
import random
import signal
import threading
import time

import folio
import pytest
from gateway import Gateway
from node import PATIENCE, wait_until
from test_restart import Kept

SEED = 11
SDK_CLIENTS, HTTP_CLIENTS = 5, 2
PROMPT = {"prompt": "Once upon a time there was a fox", "ignore_eos": True}
ASKED = [
    {**PROMPT, "max_tokens": 400},
    {**PROMPT, "max_tokens": 900, "temperature": 0.8, "seed": 7},
    {**PROMPT, "max_tokens": 500, "policy": "paged_eviction", "budget": 64, "eviction_mode": "synchronous"},
    {**PROMPT, "max_tokens": 300, "policy": "query_diff", "budget": 48, "eviction_mode": "synchronous"},
    {**PROMPT, "max_tokens": 20},
]


class Load:
    """Clients that ask for one answer after another until the end of the block, where each answer was right."""

    def __init__(self, node, names, gateway):
        self.node, self.names, self.gateway = node, names, gateway
        self.over, self.wrong, self.replays = threading.Event(), [], 0
        self.no_manager, self.spells = False, 0  # and how often it has been so
        self.answers = [0] * (SDK_CLIENTS + HTTP_CLIENTS)  # of each client
        with self.client(names) as client:
            self.calm = [client.generate(**fields).result() for fields in ASKED]
        self.whole = gateway.complete(**ASKED[1]).json()["choices"][0]["text"]
        assert self.whole == self.calm[1].text
        self.threads = [threading.Thread(target=self.stream, args=(number,)) for number in range(SDK_CLIENTS)]
        self.threads += [threading.Thread(target=self.post, args=(SDK_CLIENTS + one,)) for one in range(HTTP_CLIENTS)]

    def client(self, names):
        first, *others = [self.node.worker_address(name) for name in names]
        return folio.Client(first, standby=others, resume=PATIENCE, timeout=2 * PATIENCE)

    def repeat(self, number, ask):
        """Calls `ask` until the end, or until one answer is wrong."""
        chance = random.Random(SEED + number)
        while not self.over.is_set() and not self.wrong:
            try:
                words = ask(chance)
            except Exception as error:
                words = repr(error)
            if words:
                self.wrong.append(f"client {number} (seed {SEED}), answer {self.answers[number]}: {words}")
            self.answers[number] += 1

    def stream(self, number):
        # Each begins at another worker.
        turned = number % len(self.names)
        with self.client(self.names[turned:] + self.names[:turned]) as client:

            def ask(chance):
                which = chance.randrange(len(ASKED))
                result, calm = client.generate(**ASKED[which]).result(), self.calm[which]
                self.replays += result.finished.replays
                if result.tokens != calm.tokens or result.text != calm.text:
                    return f"another answer to {ASKED[which]}"
                return ""

            self.repeat(number, ask)

    def post(self, number):
        def ask(_):
            before, spells = self.no_manager, self.spells
            answer = self.gateway.complete(**ASKED[1])
            if (before or self.spells > spells) and answer.status == 503 and "No worker serves now" in answer.error()["message"]:
                time.sleep(0.2)  # OpenAI's clients ask again too
                return ""
            if answer.status != 200:
                return f"{answer.status} {answer.body!r}"
            return "" if answer.json()["choices"][0]["text"] == self.whole else "another text over HTTP"

        self.repeat(number, ask)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def goes_on(self):
        """Each client has two more answers, of which the second was asked for after this call."""
        before = list(self.answers)

        def moved():
            return self.wrong or all(now >= then + 2 for now, then in zip(self.answers, before, strict=True))

        wait_until(moved, 2 * PATIENCE, "every client has more answers")
        assert not self.wrong, self.wrong

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong


def replace_worker(node, serve, old, new):
    """Starts the new one beside the old one, and ends the old one."""
    serve(new)
    ending = node.workers.pop(old)
    ending.signal(signal.SIGTERM)
    assert ending.wait() == 0, ending.words()


def drained(node, client, name):
    """No new sequence goes to the worker of that name, and none is left there."""
    pools = client.pools()
    (worker,) = [one.worker_id for one in pools[0].workers if one.pid == node.workers[name].pid]
    client.drain(worker, reason="it is replaced")
    wait_until(lambda: all(one.worker_id != worker for one in client.sequences()), PATIENCE, f"{name} has no sequence")


def replace_manager(node, load):
    load.no_manager, load.spells = True, load.spells + 1
    node.manager.signal(signal.SIGTERM)
    assert node.manager.wait() == 0, node.manager.words()
    node.start_manager()
    node.manager.says("the pool's memory is back")
    wait_until(lambda: load.gateway.get("/health").status == 200, PATIENCE, "a worker serves")
    load.no_manager = False


# With time for the running answers, they end where they began. Without it, they continue elsewhere.
@pytest.mark.parametrize("drain", ["60s", "0s"])
def test_no_request_fails(long_model, drain):
    names = ["first", "second", "third"]
    # A request whose stream is cut before its client knows its id is asked again, and what was begun for it ends by this time.
    with Kept(pool="64MiB", manager_flags=["--orphan_ttl=40s"]) as node:

        def serve(name):
            return node.start_worker(name, model=long_model, flags=[f"--drain_timeout={drain}"])

        serve("first")
        serve("second")
        with Gateway(node, *names) as gateway, Load(node, names, gateway) as load:
            load.goes_on()
            # The name of the one that has ended is free for the next.
            for old, new in itertools.pairwise(["first", "third", "first"]):
                replace_worker(node, serve, old, new)
                load.goes_on()
            with folio.Client(node.worker_address("first"), node.manager_address) as operator:
                drained(node, operator, "second")
            replace_worker(node, serve, "second", "third")
            load.goes_on()
            for _ in range(2):
                replace_manager(node, load)
                load.goes_on()
            replace_worker(node, serve, "third", "second")
            load.goes_on()
        assert load.replays > 0 or drain != "0s"
        node.assert_all_free()
        node.assert_alive()
