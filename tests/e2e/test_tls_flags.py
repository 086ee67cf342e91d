"""Flags of TLS: what is refused, with which words, and what is only warned of."""

import subprocess

import pytest
from certificates import Authority
from node import BIN, MODEL, Node
from stubs import admin_pb2, admin_pb2_grpc

DAEMONS = {"folio-worker": ["--model=" + MODEL], "folio-manager": ["--pool_bytes=8MiB"]}
NOT_REACHED = ["--manager=unix:/nowhere/manager.sock", "--attach_timeout=1s"]


def run(binary, directory, *flags):
    """(exit code, all that it said) of a daemon that cannot start."""
    own = NOT_REACHED if binary == "folio-worker" else [f"--export_socket={directory}/export.sock"]
    listen = [] if any(flag.startswith("--listen=") for flag in flags) else [f"--listen=unix:{directory}/daemon.sock"]
    command = [BIN / binary, *DAEMONS[binary], *own, *listen, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


OPEN = {
    # name: (binary, flag, address)
    "worker": ("folio-worker", "listen", "0.0.0.0:0"),
    "worker, IPv6": ("folio-worker", "listen", "[::]:0"),
    "manager": ("folio-manager", "listen", "0.0.0.0:0"),
    "manager, beside a socket": ("folio-manager", "listen", "unix:/tmp/folio-never.sock,0.0.0.0:0"),
    "operators": ("folio-manager", "admin_listen", "0.0.0.0:0"),
}


@pytest.mark.parametrize("name", OPEN)
def test_plain_tcp_that_others_reach_is_refused(tmp_path, name):
    binary, flag, address = OPEN[name]
    for more in ([], ["--insecure_tcp=false"]):
        code, said = run(binary, tmp_path, f"--{flag}={address}", *more)
        assert code == 2, said
        for word in (f"--{flag}=", address.rpartition(",")[2], "--insecure_tcp", "--tls_cert", "--tls_key"):
            assert word in said, said
        assert len(said.splitlines()) == 1, said


class Manager(Node):
    """Its address of TCP can be reached from other machines."""

    def __init__(self, *flags):
        super().__init__(pool="8MiB", manager_flags=["--listen=0.0.0.0:0", *flags])
        self.manager.says("listening address=0.0.0.0:")

    def warnings(self):
        return [line for line in self.manager.words().splitlines() if "WARNING" in line]


@pytest.mark.parametrize("kind, warned", [("plain", True), ("encrypted", True), ("mutual", False)])
def test_a_warning_says_who_can_use_an_address(tmp_path, kind, warned):
    house = Authority(tmp_path)
    flags = {
        "plain": ["--insecure_tcp"],
        "encrypted": house.issue("server").server_flags(),
        "mutual": house.issue("server").server_flags(house.ca),
    }
    with Manager(*flags[kind]) as node:
        lines = [line for line in node.warnings() if "anybody who reaches this address" in line]
        assert len(lines) == warned, node.manager.words()
        assert not warned or ("address=0.0.0.0:" in lines[0] and "--tls_client_ca" in lines[0]), lines


SHAPES = {
    # name: (flags, words)
    "certificate without a key": (["--tls_cert=/tmp/a"], ["--tls_key=", "required", "--tls_cert and --tls_key"]),
    "key without a certificate": (["--tls_key=/tmp/a"], ["--tls_cert=", "required", "--tls_cert and --tls_key"]),
    "authorities alone": (["--tls_client_ca=/tmp/a"], ["--tls_client_ca=/tmp/a", "needs --tls_cert and --tls_key"]),
}


@pytest.mark.parametrize("binary", DAEMONS)
@pytest.mark.parametrize("name", SHAPES)
def test_flags_that_need_each_other(tmp_path, binary, name):
    flags, words = SHAPES[name]
    code, said = run(binary, tmp_path, *flags)
    assert code == 2 and all(word in said for word in words), said


def junk(directory, text="nothing of use\n"):
    (directory / "junk.pem").write_text(text)
    return directory / "junk.pem"


def cut_off(path, directory):
    """A chain of two certificates, of which the second one is not whole."""
    whole = path.read_text()
    return junk(directory, whole + whole[: len(whole) // 2])


FILES = {
    # name: (flags of an authority, a server's pair and a directory; words)
    "no certificate there": (
        lambda house, own, at: own._replace(cert=at / "none.pem").server_flags(), ["none.pem", "cannot be read", "No such file"]),
    "no key there": (
        lambda house, own, at: own._replace(key=at / "none.key").server_flags(), ["none.key", "cannot be read", "No such file"]),
    "no authorities there": (lambda house, own, at: own.server_flags(at / "none.pem"), ["none.pem", "cannot be read", "No such file"]),
    "a directory": (lambda house, own, at: own.server_flags(at), ["cannot be read"]),
    "key of another": (
        lambda house, own, at: own._replace(key=house.issue("else").key).server_flags(),
        ["else.key", "is not the key of the certificate in", "server.pem"]),
    "certificate no PEM": (lambda house, own, at: own._replace(cert=junk(at)).server_flags(), ["junk.pem", "no certificate as PEM"]),
    "chain cut off": (lambda house, own, at: own._replace(cert=cut_off(own.cert, at)).server_flags(), ["junk.pem", "cut off"]),
    "key no PEM": (lambda house, own, at: own._replace(key=junk(at)).server_flags(), ["junk.pem", "no private key as PEM"]),
    "authorities no PEM": (lambda house, own, at: own.server_flags(junk(at)), ["junk.pem", "no certificate as PEM"]),
    "authorities a key": (lambda house, own, at: own.server_flags(own.key), ["server.key", "no certificate as PEM"]),
}  # fmt: skip


@pytest.mark.parametrize("binary", DAEMONS)
@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_used_are_named(tmp_path, binary, name):
    flags, words = FILES[name]
    house = Authority(tmp_path)
    code, said = run(binary, tmp_path, "--listen=127.0.0.1:0", *flags(house, house.issue("server"), tmp_path))
    assert code == 1 and all(word in said for word in words), said


def test_an_expired_certificate_starts_with_a_warning(tiny_model, tmp_path):
    old = Authority(tmp_path).issue("old", days=-1)
    flags = [*old.server_flags(), "--listen=127.0.0.1:0"]
    with Node(pool="8MiB", manager_flags=flags) as node:
        node.start_worker(model=tiny_model, flags=flags)
        for process in (node.manager, node.workers["worker"]):
            process.says("the certificate has expired")
            (line,) = [line for line in process.words().splitlines() if "the certificate has expired" in line]
            assert "WARNING" in line and str(old.cert) in line and f"expired={old.expiry()}" in line, line


def test_unix_sockets_need_no_permission(tmp_path):
    with Node(pool="8MiB", manager_flags=["--insecure_tcp=false", "--listen=127.0.0.1:0", "--health_listen=0.0.0.0:0"]) as node:
        node.manager.says("listening for health checks address=0.0.0.0:")
        assert not admin_pb2_grpc.AdminStub(node.channels[0]).ListPools(admin_pb2.ListPoolsRequest(), timeout=60).pools
        assert "anybody who reaches this address" not in node.manager.words()
