"""Requests that a fault watches: they run when it comes, and afterwards go on as if nothing had been."""

import threading
import time

from folio_chaos.bounds import NEXT_TOKEN
from folio_chaos.checks import Wrong
from folio_chaos.clients import Answer, RawClient
from node import wait_until

# Cases with long answers: one that keeps everything, and one that evicts while it decodes.
CASES = (2, 7)
LEAST = 8  # tokens that each has when the fault comes
# No sequence of the crowd is asked for its pages later than these.
PRIORITY = -9


class Witnesses:
    """Two requests for each worker of a node. Leaving the block waits for their ends and judges them. With `keeps_memory` no token
    of their prompts may be computed again."""

    def __init__(self, world, node, keeps_memory):
        self.world, self.node, self.keeps_memory = world, node, keeps_memory
        self.answers, self.threads = [], []
        self.clients = []

    def __enter__(self):
        for worker in self.node.names:
            addresses = [self.node.worker_address(name) for name in sorted(self.node.names, key=lambda name: name != worker)]
            for number in CASES:
                case = self.world.cases[number].with_priority(PRIORITY)
                client, answer = RawClient(addresses), Answer(f"a witness at {worker}", case)
                self.clients.append(client)
                self.answers.append(answer)
                self.threads.append(threading.Thread(target=client.ask, args=(answer.client, case, answer), daemon=True))
        for thread in self.threads:
            thread.start()
        return self

    def await_tokens(self):
        wait_until(lambda: all(len(answer.tokens) >= LEAST for answer in self.answers), NEXT_TOKEN, "the witnesses have tokens")

    @staticmethod
    def wrong(words):
        """A Wrong that a machine that stood still may have caused."""
        return Wrong(words)

    def __exit__(self, problem, *_):
        deadline = time.monotonic() + NEXT_TOKEN
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
        for client in self.clients:
            client.close()
        if problem is None:
            for answer in self.answers:
                self.judge(answer)

    def judge(self, answer):
        said = f"{answer.client}, {answer.case.name}, sequence {answer.sequence}"
        expected = self.world.expected[self.node.name][answer.case.name]
        if answer.tokens != expected[: len(answer.tokens)]:
            self.world.fail(f"{said}: its tokens differ from the calm answer's")
        elif answer.status != "OK" or answer.tokens != expected:
            words = f"{answer.status} after {len(answer.tokens)} tokens of {len(expected)}: {answer.words}"
            self.world.fail(self.wrong(f"{said}: {words}"))
        elif self.keeps_memory and answer.again:
            self.world.fail(self.wrong(f"{said}: {answer.again} parts of its prompt were computed again"))
