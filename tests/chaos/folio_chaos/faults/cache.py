"""A pool that is full, and a row of numbers that are not finite."""

import concurrent.futures
import time

import grpc
from folio_chaos.cases import WORDS
from folio_chaos.faults.fault import Fault
from metrics import Metrics
from node import tokens, wait_until
from poison import damage
from stubs import inference_pb2


def long_request(prompt, most):
    ids = [WORDS[(7 * at) % len(WORDS)] for at in range(prompt)]
    return inference_pb2.GenerateRequest(input=tokens(ids), max_tokens=most, ignore_eos=True, label="fault")


class FullPool(Fault):
    """Long requests take all of the pool, so that others wait."""

    kind = "full pool"
    LENGTH = 1600
    MOST = 400  # requests

    def inject(self):
        layers = self.node.pool().layout.num_layers
        pages_of_one = layers * self.LENGTH // 16
        count = self.node.pool().total_pages // pages_of_one + 2
        stub = self.node.stub(self.worker)
        calls, waiting = [], []
        with concurrent.futures.ThreadPoolExecutor(self.MOST) as threads:

            def ask(times):
                for _ in range(min(times, self.MOST - len(calls))):
                    calls.append(stub.Generate(long_request(self.LENGTH - 100, 100), timeout=120))
                    waiting.append(threads.submit(self.waits, calls[-1]))

            def one_waits():
                # The first ones may have ended before anybody had to wait long enough to be told.
                ask(4)
                return any(one.done() and one.result() for one in waiting)

            ask(count)
            wait_until(one_waits, 30, "a request waits for room")
            time.sleep(self.chance.uniform(0.5, 2))
            for call in calls:
                call.cancel()
            assert [one.result() for one in waiting]

    @staticmethod
    def waits(call):
        """Whether its client is told a place in the line. Later events stay unread."""
        try:
            return bool(next(call).prefill.queue_position)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.CANCELLED, error
            return False


class OutgrownPool(Fault):
    """Answers outgrow the pool together, so that some sequences give their pages back and continue later."""

    kind = "outgrown pool"
    PROMPT, MOST = 100, 1200

    def inject(self):
        pool = self.node.pool()
        tokens_of_pool = pool.total_pages // pool.layout.num_layers * 16
        count = 2 + 2 * tokens_of_pool // (self.PROMPT + self.MOST)
        before = self.parked()
        with concurrent.futures.ThreadPoolExecutor(count) as threads:
            self.answers = [one.result() for one in [threads.submit(self.answer) for _ in range(count)]]
        assert self.parked() > before, "no sequence was parked"

    def settle(self):
        calm = self.answer()
        if any(one != calm for one in self.answers):
            self.world.fail("an answer that shared an outgrown pool differs from a calm one")

    def answer(self):
        call = self.node.stub(self.worker).Generate(long_request(self.PROMPT, self.MOST), timeout=120)
        return [token for event in call for token in event.chunk.tokens]

    def parked(self):
        return Metrics(self.node.manager)("folio:sequences_parked_total")


class PoisonRow(Fault):
    """NaN in a page of a sequence, which ends alone."""

    kind = "poison row"

    def inject(self):
        call = self.node.stub(self.worker).Generate(long_request(100, 1800), timeout=60)
        started, given = None, 0
        for event in call:
            started = event.started if event.HasField("started") else started
            given += len(event.chunk.tokens)
            if given >= 5:
                break
        damage(self.node, started.sequence_id)
        try:
            for _ in call:
                pass
            self.world.fail("a sequence with NaN in its pages came to its end")
        except grpc.RpcError as error:
            self.world.count_poisoned()
            if error.code() is not grpc.StatusCode.DATA_LOSS or "not finite for this sequence" not in error.details():
                self.world.fail(f"a sequence with NaN in its pages ended with {error.code()}: {error.details()}")


KINDS = [FullPool, OutgrownPool, PoisonRow]
