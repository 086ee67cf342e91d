"""Callers of workers with --access: who they are, and for which tenant they ask."""

import folio
import grpc
from access import (
    DENIED, EXHAUSTED, OK, TOKENS, UNAUTHENTICATED, AccessNode, asking, bearer, inference_stub, lines, refusal, token_line,
)  # fmt: skip
from access import node  # noqa: F401 - the fixture
from metrics import ENDPOINT, Metrics
from node import PATIENCE, Node, tokens, wait_until
from streams import Stream, kill
from stubs import admin_pb2, inference_pb2, inference_pb2_grpc


def requests_of_inference():
    return {
        "Generate": asking(),
        "Score": inference_pb2.ScoreRequest(input=tokens([1, 2]), continuation=tokens([3])),
        "Tokenize": inference_pb2.TokenizeRequest(input=inference_pb2.Input(text="a")),
        "Detokenize": inference_pb2.DetokenizeRequest(ids=[1]),
        "GetModel": inference_pb2.GetModelRequest(),
    }


def test_each_call_of_inference_needs_a_tenant(node):
    requests = requests_of_inference()
    methods = [method.name for method in inference_pb2.DESCRIPTOR.services_by_name["Inference"].methods]
    assert methods and set(methods) == set(requests)
    for name in methods:
        call = getattr(node.stub, name)
        # The socket's line gives no tenant, and so neither do operators' tokens.
        assert refusal(lambda: call(requests[name]))[0] == DENIED, name
        for operator in ("viewer", "steerer"):
            assert refusal(lambda: call(requests[name], metadata=bearer(operator)))[0] == DENIED, name
        code, words = refusal(lambda: call(requests[name], metadata=bearer("nobody's")))
        assert (code, "token is not known" in words) == (UNAUTHENTICATED, True), name
        for wrong in ("Basic alice-secret-token", "alice-secret-token", "Bearer", "Bearer "):
            assert refusal(lambda: call(requests[name], metadata=(("authorization", wrong),)))[0] == UNAUTHENTICATED, (name, wrong)
        for name_of in ("alice", "bob", "gateway"):
            assert refusal(lambda: call(requests[name], metadata=bearer(name_of)))[0] == OK, name
        assert refusal(lambda: call(requests[name], metadata=bearer("alice") + bearer("alice")))[0] == UNAUTHENTICATED, name


def test_a_tenant_names_itself_alone(node):
    for request in (asking(tenant="bob"), asking(tenant="Alice")):
        code, words = refusal(lambda: node.stub.Generate(request, metadata=bearer("alice")))
        assert (code, words.startswith("tenant: ")) == (DENIED, True), words
    score = inference_pb2.ScoreRequest(input=tokens([1, 2]), continuation=tokens([3]), tenant="bob")
    assert refusal(lambda: node.stub.Score(score, metadata=bearer("alice")))[0] == DENIED
    call = node.stub.Generate(asking(most=30000), metadata=bearer("alice"))
    assert next(call).HasField("started")
    (sequence,) = node.sequences()
    assert sequence.tenant == "alice", "a request without a tenant is its caller's"
    call.cancel()
    call = node.stub.Generate(asking(most=30000, tenant="carol"), metadata=bearer("gateway"))
    assert next(call).HasField("started")
    assert "carol" in {sequence.tenant for sequence in node.sequences()}
    call.cancel()
    wait_until(lambda: not node.sequences(), PATIENCE, "both have ended")


def test_another_tenant_gets_no_sequence(long_model):
    """Neither by its handle nor with a resume token that was overheard, and the sequence is unharmed."""
    with AccessNode(lines(unix="unix * steer"), manager_flags=["--orphan_ttl=1h"], worker_flags=ENDPOINT) as node:
        node.start_worker("first", model=long_model)
        second = node.start_worker("second", model=long_model)
        request = asking(range(1, 40), most=4000)
        expected, stream = Stream(), Stream()
        expected.follow(inference_stub(node, "alice", "second").Generate(request))
        call = inference_stub(node, "alice", "first").Generate(request)
        stream.follow(call, stop=lambda stream: len(stream.tokens) > 5)
        resume = stream.resume()
        # While its worker lives, and when it is lost.
        for gone in (False, True):
            if gone:
                kill(node, "first")
                stream.follow(call)
                resume = stream.resume()
                wait_until(lambda: node.pool().orphans == 1, PATIENCE, "an orphan")
            before = node.sequence(stream.started.sequence_id)
            code, words = refusal(lambda: second.Generate(resume, metadata=bearer("bob"), timeout=PATIENCE))
            assert (code, "another tenant" in words, "alice" in words) == (DENIED, True, False), words
            assert refusal(lambda: second.Generate(resume, metadata=bearer("viewer")))[0] == DENIED
            after = node.sequence(stream.started.sequence_id)
            assert (after.sequence.lease_epoch, after.sequence.held_pages >= before.sequence.held_pages) == (1, True)
        others = admin_pb2.CloseSequenceRequest(sequence_id=stream.started.sequence_id)
        assert refusal(lambda: node.admin.CloseSequence(others, metadata=bearer("bob")))[0] == DENIED
        node.workers["second"].says("call=Generate")
        assert Metrics(node.workers["second"])("folio:calls_refused_total", reason="permission_denied") == 4
        stream.follow(second.Generate(resume, metadata=bearer("alice")))
        assert stream.tokens == expected.tokens
        node.assert_all_free()


def test_a_gateway_may_continue_any_tenants_sequence(long_model):
    with AccessNode(lines(), manager_flags=["--orphan_ttl=1h"]) as node:
        node.start_worker("first", model=long_model)
        node.start_worker("second", model=long_model)
        stream = Stream()
        call = inference_stub(node, "alice", "first").Generate(asking(most=4000))
        stream.follow(call, stop=lambda stream: len(stream.tokens) > 5)
        kill(node, "first")
        stream.follow(call)
        stream.follow(inference_stub(node, "gateway", "second").Generate(stream.resume()))
        assert len(stream.tokens) == 4000


def test_a_priority_is_no_better_than_the_tenants(long_model):
    with AccessNode(lines(alice="priority=10")) as node:
        node.start_worker(model=long_model)
        # Also where a gateway asks for the tenant.
        for caller, asked, given in (("alice", -5, 10), ("alice", 20, 20), ("bob", -5, -5), ("gateway", -5, 10)):
            request = asking(most=30000, priority=asked, tenant="alice" if caller == "gateway" else "")
            call = inference_stub(node, caller).Generate(request)
            assert next(call).HasField("started")
            assert [sequence.priority for sequence in node.sequences()] == [given], caller
            call.cancel()
            wait_until(lambda: not node.sequences(), PATIENCE, "it has ended")


def test_quotas_of_the_file_and_their_change(long_model):
    with AccessNode(lines(alice="sequences=1 requests_per_minute=3", unix="unix * steer")) as node:
        node.start_worker(model=long_model)
        alice = inference_stub(node, "alice")
        quotas = {tenant.tenant: tenant.quota for tenant in node.admin.ListTenants(admin_pb2.ListTenantsRequest()).tenants}
        assert (quotas["alice"].sequences, quotas["alice"].requests_per_minute) == (1, 3)
        assert not quotas["alice"].HasField("pages") and "bob" not in quotas
        call = alice.Generate(asking(most=30000))
        assert next(call).HasField("started")
        code, words = refusal(lambda: alice.Generate(asking()))
        assert (code, "1 sequence" in words) == (EXHAUSTED, True), words
        call.cancel()
        wait_until(lambda: not node.sequences(), PATIENCE, "it has ended")
        # The refused one took none of the three.
        assert [refusal(lambda: alice.Generate(asking()))[0] for _ in range(3)] == [OK, OK, EXHAUSTED]
        code, words = refusal(lambda: alice.Generate(asking()))
        assert "the next request may come in" in words, words
        # An operator overrides the file.
        with folio.Client(node.worker_address(), node.manager_address, token=TOKENS["steerer"]) as client:
            client.set_quota("alice", requests_per_minute=1000)
            assert client.tenants()[0].quota == folio.Quota(sequences=None, pages=None, requests_per_minute=1000)
        assert refusal(lambda: alice.Generate(asking()))[0] == OK
        # A wrong file changes nothing, and the next right one sets the quotas again.
        node.access.write_text("tenant alice sequences=many\n")
        node.manager.says("the access file is wrong, so the old rules count")
        assert "line 1" in node.manager.words()
        assert refusal(lambda: alice.Generate(asking()))[0] == OK
        node.access.write_text(lines(alice="sequences=0"))
        node.manager.says("access file read again")
        wait_until(lambda: "at most 0 sequences" in refusal(lambda: alice.Generate(asking()))[1], PATIENCE, "the new quota counts")


def test_a_token_is_taken_away_while_daemons_run(long_model):
    with AccessNode(lines()) as node:
        node.start_worker(model=long_model)
        stub = inference_stub(node, "alice")
        running = stub.Generate(asking(most=20000))
        assert next(running).HasField("started")
        node.access.write_text(lines().replace(token_line(TOKENS["alice"], "alice"), token_line("next", "alice")))
        wait_until(lambda: refusal(lambda: stub.GetModel(inference_pb2.GetModelRequest()))[0] == UNAUTHENTICATED, PATIENCE, "it is gone")
        assert refusal(lambda: stub.GetModel(inference_pb2.GetModelRequest(), metadata=()))[0] == UNAUTHENTICATED
        node.worker_stub = node.connect(node.worker_address(), node.workers["worker"])
        fresh = inference_pb2_grpc.InferenceStub(node.worker_stub)
        assert refusal(lambda: fresh.GetModel(inference_pb2.GetModelRequest(), metadata=bearer("next")))[0] == OK
        assert list(running)[-1].HasField("finished"), "a call that runs is not cut"


def test_without_access_everything_stays_open(long_model):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=long_model)
        # A token that nobody asked for does no harm.
        assert refusal(lambda: stub.Generate(asking(tenant="any"), metadata=bearer("x")))[0] == OK
        assert refusal(lambda: node.admin.Drain(admin_pb2.DrainRequest(undo=True)))[0] == OK
