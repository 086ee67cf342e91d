"""Files for --access, their tokens, and stubs that show them."""

import hashlib

import grpc
import pytest
from metrics import ENDPOINT
from node import Node, tokens
from stubs import admin_pb2_grpc, inference_pb2, inference_pb2_grpc

OK, UNAUTHENTICATED = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
DENIED, EXHAUSTED = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED

TOKENS = {name: f"{name}-secret-token" for name in ("alice", "bob", "viewer", "steerer", "gateway")}


def token_line(token, rest):
    return f"token sha256:{hashlib.sha256(token.encode()).hexdigest()} {rest}"


def bearer(name):
    """The metadata of a call that shows a token by its name, or any other text as one."""
    return (("authorization", f"Bearer {TOKENS.get(name, name)}"),)


def lines(*more, alice="", unix="unix - view"):
    """Two tenants, an operator who may look, one who may act, and a gateway."""
    return "\n".join([
        f"tenant alice {alice}",
        "tenant bob",
        token_line(TOKENS["alice"], "alice"),
        token_line(TOKENS["bob"], "bob"),
        token_line(TOKENS["viewer"], "- view"),
        token_line(TOKENS["steerer"], "- steer"),
        token_line(TOKENS["gateway"], "* view"),
        *([unix] if unix else []),
        *more,
        "",
    ])  # fmt: skip


def asking(ids=(1, 2, 3), most=4, **fields):
    return inference_pb2.GenerateRequest(input=tokens(list(ids)), max_tokens=most, ignore_eos=True, **fields)


def refusal(call):
    """How a call ends that is not to succeed. `call` may give a stream."""
    try:
        answer = call()
        if hasattr(answer, "__next__"):
            for _ in answer:
                pass
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


class AccessNode(Node):
    """A manager and workers with one file of --access. The node's own questions come over the manager's Unix socket without a token,
    so the file's line for that says whether they are answered."""

    def __init__(self, text, pool="64MiB", manager_flags=(), worker_flags=(), **options):
        self.worker_flags, self.text = worker_flags, text
        super().__init__(pool=pool, manager_flags=manager_flags, **options)

    def start_manager(self):
        self.access = self.path / "access"
        self.access.write_text(self.text)
        self.manager_arguments.append(f"--access={self.access}")
        super().start_manager()

    def launch_worker(self, name, *arguments, flags=(), **options):
        return super().launch_worker(name, *arguments, flags=[f"--access={self.access}", *self.worker_flags, *flags], **options)

    def start_worker(self, name="worker", flags=(), **options):
        return self.serving(name, self.launch_worker(name, flags=flags, **options))


class Shows(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Adds a token to all calls of a channel."""

    def __init__(self, name):
        self.metadata = bearer(name)

    def _with(self, details):
        class Details(grpc.ClientCallDetails):
            method, timeout, credentials = details.method, details.timeout, details.credentials
            metadata = (*(details.metadata or ()), *self.metadata)
            wait_for_ready, compression = details.wait_for_ready, details.compression

        return Details()

    def intercept_unary_unary(self, continuation, details, request):
        return continuation(self._with(details), request)

    def intercept_unary_stream(self, continuation, details, request):
        return continuation(self._with(details), request)


def showing(channel, name):
    """The channel as one whose calls show a token."""
    return grpc.intercept_channel(channel, Shows(name))


def admin_stub(node, name, address=None):
    return admin_pb2_grpc.AdminStub(showing(node.connect(address or node.manager_address, node.manager), name))


def inference_stub(node, name, worker="worker"):
    process = node.workers[worker]
    return inference_pb2_grpc.InferenceStub(showing(node.connect(node.worker_address(worker), process), name))


@pytest.fixture(scope="module")
def node(long_model):
    """A line for the Unix socket gives operators a look. Nothing gives it a tenant."""
    with AccessNode(lines(), manager_flags=["--orphan_ttl=1h", *ENDPOINT], worker_flags=ENDPOINT) as node:
        node.stub = node.start_worker(model=long_model)
        yield node
        node.assert_alive()
        node.assert_all_free()
