"""The manager is killed under load, and the next one continues: streams go on, token for token, and no prompt is computed again."""

import os
import signal
import subprocess
import zlib

import folio
import grpc
import pytest
from node import BIN, PATIENCE, Node, side_by_side, wait_until
from streams import LONG, MOST, REQUESTS, Stream, all_alone, asking, go_on, kill, serves, start_and_kill, whole
from test_resume import begun


class Kept(Node):
    """A node whose manager leaves its record to the next one."""

    def __init__(self, manager_flags=(), **options):
        super().__init__(manager_flags=["--orphan_ttl=1h", "--state_dir={path}/state", *manager_flags], **options)

    def start_manager(self):
        self.manager_arguments = [one.format(path=self.path) for one in self.manager_arguments]
        super().start_manager()

    @property
    def state(self):
        return self.path / "state"

    def kill_the_manager(self):
        os.kill(self.manager.pid, signal.SIGKILL)
        self.manager.wait()


def kill_the_manager(node, _):
    node.kill_the_manager()


def kill_both(node, name):
    node.kill_the_manager()
    kill(node, name)


def test_streams_go_on_token_for_token():
    with Kept(pool="512MiB") as node:
        stub = node.start_worker()
        worker = node.workers["worker"].pid
        expected = all_alone(REQUESTS.values())
        for round in range(2):
            streams = start_and_kill(node, stub, "worker", list(REQUESTS.values()), kill=kill_the_manager)
            before = [len(stream.tokens) for stream in streams]
            node.start_manager()
            for name, stream, unbroken, had in zip(REQUESTS, streams, expected, before, strict=True):
                stream.prefilled = 0
                go_on(stub, stream)
                assert stream.tokens == unbroken.tokens, f"round {round}: {name}, resumed after {had} tokens"
                assert stream.text == unbroken.text
                assert stream.prefilled == 0, "a token of the prompt was computed again"
                assert stream.finished.cache.resident_tokens == unbroken.finished.cache.resident_tokens
            node.manager.says("the pool's memory is back")
            assert f"sequences={len(REQUESTS)} to_be_computed_again=0" in node.manager.words()
        assert [one.pid for one in node.pool().workers] == [worker]
        node.assert_all_free()
        node.assert_alive()


def test_ids_are_never_given_twice():
    with Kept(pool="64MiB") as node:
        stub = node.start_worker()
        first = whole(stub, asking()).started.sequence_id
        node.kill_the_manager()
        node.start_manager()
        node.manager.says("the pool's memory is back")
        # The worker says that it has attached before it takes requests again.
        wait_until(lambda: serves(stub), PATIENCE, "the worker serves again")
        assert whole(stub, asking()).started.sequence_id > first


def test_a_prompt_goes_on_from_its_last_chunk():
    request = asking("paged_eviction", 128, prompt=LONG)
    with Kept(pool="256MiB") as node:
        stub = node.start_worker(flags=["--prefill_chunk=32"])
        expected = whole(stub, request)
        chunks = -(-len(LONG) // 32)
        stream = Stream()
        call = stub.Generate(request, timeout=120)
        stream.follow(call, stop=lambda stream: stream.prefilled == 3)
        node.kill_the_manager()
        stream.follow(call)
        assert not stream.tokens
        done, stream.prefilled = stream.prefilled, 0
        node.start_manager()
        go_on(stub, stream)
        assert stream.tokens == expected.tokens
        assert 0 < stream.prefilled <= chunks - done + 1


def test_a_worker_that_dies_with_the_manager_leaves_its_sequences_to_another():
    with Kept(pool="256MiB") as node:
        first, second = node.start_worker("first"), node.start_worker("second")
        requests = [REQUESTS["full"], REQUESTS["paged_eviction"]]
        expected = all_alone(requests)

        streams = start_and_kill(node, first, "first", requests, kill=kill_both)
        node.start_manager()
        for stream, unbroken in zip(streams, expected, strict=True):
            stream.prefilled = 0
            go_on(second, stream)
            assert stream.tokens == unbroken.tokens
            assert stream.prefilled == 0, "the second worker brought the memory, so nothing is computed again"
        node.assert_all_free()


def test_without_any_worker_all_is_computed_again():
    with Kept(pool="256MiB") as node:
        stub = node.start_worker("first")
        requests = [REQUESTS["full"], REQUESTS["sampled"]]
        expected = all_alone(requests)

        streams = start_and_kill(node, stub, "first", requests, kill=kill_both)
        node.start_manager()
        node.manager.says("the pool has new memory")
        second = node.start_worker("second")
        for stream, unbroken in zip(streams, expected, strict=True):
            go_on(second, stream)
            assert stream.tokens == unbroken.tokens
        node.assert_all_free()


def test_a_sequence_in_swap_memory_is_still_there():
    with Kept(pool="24MiB", manager_flags=["--host_swap_bytes=64MiB"]) as node:
        stub = node.start_worker()
        requests = [asking() for _ in range(4)]
        (expected,) = all_alone(requests[:1])
        streams = start_and_kill(
            node, stub, "worker", requests, kill=kill_the_manager, when=lambda: node.events("sequence_parked")
        )
        node.start_manager()
        side_by_side(*[lambda stream=stream: go_on(stub, stream) for stream in streams if stream.started])
        assert all(stream.tokens == expected.tokens for stream in streams if stream.started)
        node.assert_all_free()


def test_an_ordered_end_leaves_the_sequences_too():
    with Kept(pool="256MiB") as node:
        stub = node.start_worker()
        (expected,) = all_alone([REQUESTS["full"]])

        def end(node, _):
            node.manager.signal(signal.SIGTERM)
            assert node.manager.wait() == 0

        (stream,) = start_and_kill(node, stub, "worker", [REQUESTS["full"]], kill=end)
        node.start_manager()
        stream.prefilled = 0
        go_on(stub, stream)
        assert stream.tokens == expected.tokens and stream.prefilled == 0
        node.assert_all_free()


def test_an_ordered_end_without_sequences_leaves_the_memory():
    with Kept(pool="64MiB") as node:
        stub = node.start_worker()
        assert len(whole(stub, asking()).tokens) == MOST
        node.assert_all_free()
        for _ in range(2):
            node.manager.signal(signal.SIGTERM)
            assert node.manager.wait() == 0
            node.start_manager()
            node.manager.says("the pool's memory is back")
            wait_until(lambda: serves(stub), PATIENCE, "the worker serves again")
            assert "the pool has new memory" not in node.manager.words()


def test_each_rank_brings_its_own_memory():
    with Kept(pool="256MiB") as node:
        stub = node.start_worker(flags=["--tp=2"])
        expected = whole(stub, REQUESTS["full"])
        (stream,) = start_and_kill(node, stub, "worker", [REQUESTS["full"]], kill=kill_the_manager)
        node.start_manager()
        stream.prefilled = 0
        go_on(stub, stream)
        assert stream.tokens == expected.tokens and stream.prefilled == 0
        node.assert_all_free()


def second_manager(node):
    """The output and code of a manager that should not start with this node's record."""
    arguments = [
        f"--listen=unix:{node.path}/other.sock",
        f"--export_socket={node.path}/other-export.sock",
        f"--state_dir={node.state}",
    ]
    done = subprocess.run([BIN / "folio-manager", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


def test_two_managers_do_not_share_a_folder():
    with Kept(pool="64MiB") as node:
        stub = node.start_worker()
        code, words = second_manager(node)
        assert code == 1 and f"belongs to the manager of process {node.manager.pid}" in words, words
        assert len(whole(stub, asking()).tokens) == MOST


def frame(entry):
    length = len(entry).to_bytes(4, "little")
    return length + b"".join(zlib.crc32(part).to_bytes(4, "little") for part in (length, entry)) + entry


def test_a_journal_of_a_newer_version_is_left_alone():
    with Kept(pool="64MiB") as node:
        node.start_worker()
        node.kill_the_manager()
        # A header (field 1) of version 99 (field 1) by "folio-manager 9.0" (field 2).
        name = b"folio-manager 9.0"
        header = b"\x08\x63\x12" + bytes([len(name)]) + name
        newer = node.state / "journal-99999"
        newer.write_bytes(frame(b"\x0a" + bytes([len(header)]) + header))
        before = {path.name: path.read_bytes() for path in node.state.glob("journal-*")}
        code, words = second_manager(node)
        assert code == 1 and "was written by folio-manager 9.0, in version 99 of the format" in words, words
        assert {path.name: path.read_bytes() for path in node.state.glob("journal-*")} == before
        newer.unlink()
        node.start_manager()
        node.manager.says("the pool's memory is back")


@pytest.mark.parametrize("damage", ["torn", "cut", "flipped"])
def test_a_damaged_journal_costs_what_is_behind_the_damage(damage):
    with Kept(pool="256MiB") as node:
        stub = node.start_worker()
        (expected,) = all_alone([REQUESTS["full"]])
        (stream,) = start_and_kill(node, stub, "worker", [REQUESTS["full"]], kill=kill_the_manager)
        (journal,) = node.state.glob("journal-*")
        bytes_ = bytearray(journal.read_bytes())
        if damage == "torn":
            bytes_ += b"end"  # of which no reply could know
        elif damage == "cut":
            del bytes_[-3:]
        else:
            bytes_[-3] ^= 1
        journal.write_bytes(bytes_)
        node.start_manager()
        if damage == "torn":
            node.manager.says("torn_bytes=3")
            assert "damaged" not in node.manager.words()
        else:
            node.manager.says("the journal is damaged, so all sequences are computed again")
            assert ("acknowledged bytes is missing" if damage == "cut" else "wrong checksum") in node.manager.words()
        had = list(stream.tokens)

        def answered():
            call = stub.Generate(stream.resume(), timeout=120)
            try:
                stream.take(next(call))
                stream.follow(call)
                return "went on"
            except grpc.RpcError as error:
                # The client may have a token that the damaged record lacks. It is told so.
                return {grpc.StatusCode.INVALID_ARGUMENT: "refused", grpc.StatusCode.UNAVAILABLE: None}[error.code()]

        if wait_until(answered, PATIENCE, "it is known what became of the sequence") == "went on":
            assert stream.tokens == expected.tokens
        else:
            assert damage == "flipped" and stream.tokens == had


def test_a_client_of_the_sdk_sees_nothing():
    with Kept(pool="256MiB") as node:
        node.start_worker()
        (expected,) = all_alone([REQUESTS["sampled"]])
        with folio.Client(node.worker_address(), resume=PATIENCE) as client:
            generation = begun(client)
            node.kill_the_manager()
            node.start_manager()
            result = generation.result()
        assert list(result.tokens) == expected.tokens and result.text == expected.text
        node.assert_all_free()
