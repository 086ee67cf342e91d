"""Certificates that expire and are replaced, callers whose certificates are refused, and a tenant that means harm."""

import secrets
import time

import folio
import grpc
from access import refusal
from folio_chaos.bounds import REQUEST
from folio_chaos.callers import HOSTILE, HOSTILE_REQUESTS, shows
from folio_chaos.cases import WORDS, slow_request
from folio_chaos.faults.fault import LATE, Fault
from node import side_by_side, tokens, wait_until
from streams import Stream
from stubs import admin_pb2, inference_pb2

EXPIRED = "the certificate has expired, so clients refuse it"
SHORT = {"tokens": [3, 4, 5], "max_tokens": 2, "ignore_eos": True}


def connecting(address, encryption):
    """A new client that tries nothing again."""
    return folio.Client(address, timeout=LATE, retries=0, resume=0, tls=encryption)


class ReplaceCertificates(Fault):
    """The certificate of a node's workers expires, and is replaced. Connections that are open stay, and those that begin wait."""

    kind = "certificates expire and are replaced"

    def inject(self):
        node, own = self.node, self.node.certificates
        self.target = node.name
        before = self.process.words().count(EXPIRED)
        own.serve(node.files, own.expired)
        # A daemon looks at its files when a connection begins.
        wait_until(lambda: not self.served(), LATE, "no new client takes an expired certificate")
        wait_until(lambda: self.process.words().count(EXPIRED) > before, LATE, f"{self.worker} says that its certificate has expired")
        time.sleep(self.chance.uniform(0.5, 1.5))
        own.serve(node.files, own.valid[self.chance.randrange(len(own.valid))])
        wait_until(self.served, LATE, "new clients are served with the new certificate")

    def served(self):
        with connecting(self.node.encrypted_address(self.worker), self.node.certificates.crowd) as client:
            try:
                return bool(client.model())
            except folio.Unavailable:
                return False


class RefusedCertificates(Fault):
    """Clients come whose certificates are refused, among those that have the right one."""

    kind = "clients with refused certificates"
    LASTS = 2.0  # seconds

    def inject(self):
        side_by_side(*[lambda how=how: self.come(how) for how in self.node.certificates.refused])

    def come(self, how):
        address, end = self.node.encrypted_address(self.worker), time.monotonic() + self.LASTS
        while time.monotonic() < end:
            with connecting(address, self.node.certificates.refused[how]) as client:
                for call in (client.model, lambda: client.generate(**SHORT).text()):
                    try:
                        call()
                    except folio.Unavailable:
                        continue
                    self.world.fail(f"a client with {how} was served")


class HostileTenant(Fault):
    """A tenant shows wrong tokens, names others, takes their sequences, exceeds its quota, and sends what is too long."""

    kind = "hostile tenant"
    TIMES = 2
    GUESSES = 20  # sequences of others, at most

    def inject(self):
        self.stub, self.mine = self.node.stub(self.worker), shows(HOSTILE)
        doings = (self.without_a_name, self.with_sequences_of_others, self.beyond_its_quota, self.too_long, self.as_an_operator)
        for _ in range(self.TIMES):
            side_by_side(*doings)

    def refused(self, what, code, call, words=""):
        """Notes an answer to a call that should have been refused with the code and words."""
        got, details = refusal(call)
        if got is grpc.StatusCode.OK:
            self.world.fail(f"{what} was answered")
        elif got is not code or words not in details:
            self.world.fail(f"{what} ended with {got}: {details}, not with {code}: {words}")

    def generate(self, metadata=None, **fields):
        request = inference_pb2.GenerateRequest(ignore_eos=True, **{"input": tokens([3, 4, 5]), "max_tokens": 2, **fields})
        return self.stub.Generate(request, timeout=REQUEST, metadata=metadata or self.mine)

    def without_a_name(self):
        for shown in ("guessed", secrets.token_hex(32), "x" * 4000):
            wrong = (("authorization", f"Bearer {shown}"),)
            self.refused("a wrong token", grpc.StatusCode.UNAUTHENTICATED, lambda wrong=wrong: self.generate(wrong))
        for name in ("north", "south", "Mallory"):
            self.refused(f"a request for {name}", grpc.StatusCode.PERMISSION_DENIED, lambda name=name: self.generate(tenant=name))

    def with_sequences_of_others(self):
        def claim(request):
            return lambda: self.stub.Generate(request, timeout=REQUEST, metadata=self.mine)

        victim, asked = Stream(), slow_request()
        asked.tenant = "north"
        call = self.stub.Generate(asked, timeout=REQUEST, metadata=shows(asked.tenant))
        victim.follow(call, stop=lambda stream: stream.tokens)  # it stands still from now on, because nobody reads
        code, details = refusal(claim(victim.resume()))
        ended = code is grpc.StatusCode.NOT_FOUND and not self.is_open(victim.started.sequence_id)
        if not ended and (code is not grpc.StatusCode.PERMISSION_DENIED or "another tenant" not in details):
            self.world.fail(f"an overheard resume token ended with {code}: {details}")
        for one in self.node.sequences()[: self.GUESSES]:
            if one.tenant != HOSTILE:
                guess = inference_pb2.Resume(sequence_id=one.sequence_id, resume_token=secrets.token_bytes(16))
                self.not_given(claim(inference_pb2.GenerateRequest(resume=guess)))
        victim.follow(call)
        if victim.tokens != self.world.slow_answers[self.node.name]:
            self.world.fail("an answer whose resume token another tenant has shown differs from a calm one")

    def is_open(self, sequence_id):
        """Whether the manager has the sequence. All of an answer may fit into buffers while nobody reads it, and its sequence ends."""
        return any(one.sequence_id == sequence_id for one in self.node.sequences())

    def not_given(self, call):
        """As `refused`. The sequence may have ended meanwhile, or its worker may run it."""
        allowed = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE)
        try:
            list(call())
        except grpc.RpcError as error:
            if error.code() not in allowed:
                self.world.fail(f"a guessed resume token ended with {error.code()}: {error.details()}")
        else:
            self.world.fail("a guessed resume token gave a sequence")

    def beyond_its_quota(self):
        begun, served = time.monotonic(), 0
        for _ in range(2 * HOSTILE_REQUESTS):
            try:
                list(self.generate())
                served += 1
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or "requests" not in error.details():
                    self.world.fail(f"a request beyond the quota ended with {error.code()}: {error.details()}")
        most = HOSTILE_REQUESTS * (1 + (time.monotonic() - begun) / 60) + 1
        if served > most:
            self.world.fail(f"{served} requests of a tenant were served that may begin {HOSTILE_REQUESTS} in a minute")

    def too_long(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        self.refused("a prompt beyond the context", invalid, lambda: self.generate(input=tokens([WORDS[0]] * 100_000)))
        self.refused("a text of 3 MB", invalid, lambda: self.generate(input=inference_pb2.Input(text="a" * 3_000_000)))
        long = inference_pb2.Input(text="a" * 30_000_000)
        self.refused("a message of 30 MB", grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: self.generate(input=long))
        resume = inference_pb2.Resume(sequence_id=1, resume_token=b"x", received_tokens=[WORDS[0]] * 100_000)
        self.refused("received tokens beyond the context", invalid, lambda: self.stub.Generate(
            inference_pb2.GenerateRequest(resume=resume), timeout=REQUEST, metadata=self.mine))  # fmt: skip

    def as_an_operator(self):
        admin, denied = self.node.admin, grpc.StatusCode.PERMISSION_DENIED
        close = admin_pb2.CloseSequenceRequest(sequence_id=1)
        self.refused("the end of a sequence", denied, lambda: admin.CloseSequence(close, metadata=self.mine, timeout=REQUEST))
        drain = admin_pb2.DrainRequest()
        self.refused("a drain", denied, lambda: admin.Drain(drain, metadata=self.mine, timeout=REQUEST))
        look = admin_pb2.ListSequencesRequest()
        self.refused("a look", denied, lambda: admin.ListSequences(look, metadata=self.mine, timeout=REQUEST))


KINDS = [ReplaceCertificates, RefusedCertificates, HostileTenant]
