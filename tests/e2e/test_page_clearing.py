"""No keys and values of one tenant are left in the pages of another."""

import subprocess

import pytest
from node import BIN, PATIENCE, Node, tokens, wait_until
from page_memory import ranks
from streams import serves
from stubs import inference_pb2

# More than a page, in both layers of the tiny model, and less than one.
LONG, SHORT, NEW = 120, 5, 3


def run(node, stub, tenant, prompt):
    ids = [(7 * at + len(tenant)) % 250 + 3 for at in range(prompt)]
    *_, last = stub.Generate(
        inference_pb2.GenerateRequest(input=tokens(ids), max_tokens=NEW, ignore_eos=True, tenant=tenant), timeout=PATIENCE
    )
    assert last.HasField("finished")
    wait_until(lambda: not node.sequences(), PATIENCE, "it has ended")


def old_rows(before, after):
    """The rows behind the tokens of the short answer, in the pages that it was written to, as bytes were in them before
    and are now."""
    written = [page for page in range(len(before)) if (before[page] != after[page]).any() and after[page, :, 0].any()]
    assert written, "the short answer is in some pages"
    behind = slice(SHORT + NEW, None)
    assert all(before[page, :, behind].any() for page in written), "these pages had been used"
    return before[written, :, behind], after[written, :, behind]


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("flags, clears", [([], True), (["--clear_pages=never"], False)])
def test_another_tenant_s_pages_are_cleared(tiny_model, tp, flags, clears):
    with Node(pool="3MiB", manager_flags=flags) as node:
        stub = node.start_worker(model=tiny_model, flags=[f"--tp={tp}"])
        run(node, stub, "alice", LONG)
        before = [rank.copy() for rank in ranks(node)]
        run(node, stub, "bob", SHORT)
        assert len(before) == tp
        for rank, pages in zip(ranks(node), before, strict=True):
            was, is_now = old_rows(pages, rank.copy())
            assert not is_now.any() if clears else (was == is_now).all()
        node.manager.says("clear_pages=" + ("between_tenants" if clears else "never"))


def test_one_tenant_s_pages_are_left_alone(tiny_model):
    with Node(pool="3MiB") as node:
        stub = node.start_worker(model=tiny_model)
        run(node, stub, "alice", LONG)
        (before,) = (rank.copy() for rank in ranks(node))
        run(node, stub, "alice", SHORT)
        was, is_now = old_rows(before, ranks(node)[0].copy())
        assert (was == is_now).all()


def test_always_needs_no_tenant(tiny_model):
    with Node(pool="3MiB", manager_flags=["--clear_pages=always"]) as node:
        stub = node.start_worker(model=tiny_model)
        run(node, stub, "", LONG)
        (before,) = (rank.copy() for rank in ranks(node))
        run(node, stub, "", SHORT)
        assert not old_rows(before, ranks(node)[0].copy())[1].any()


def test_after_a_restart_nothing_is_known_of_the_pages(tiny_model, tmp_path):
    with Node(pool="3MiB", manager_flags=[f"--state_dir={tmp_path}"]) as node:
        stub = node.start_worker(model=tiny_model)
        run(node, stub, "alice", LONG)
        (before,) = (rank.copy() for rank in ranks(node))
        node.manager.popen.kill()
        node.manager.wait()
        node.start_manager()
        wait_until(lambda: serves(stub), PATIENCE, "the worker serves again")
        run(node, stub, "bob", SHORT)
        after = ranks(node)[0].copy()
        assert not old_rows(before, after)[1].any()
        assert any(page.any() and (page == then).all() for page, then in zip(before, after, strict=True)), "the memory is the same"


def test_an_unknown_rule_is_refused():
    run = subprocess.run(
        [BIN / "folio-manager", "--clear_pages=sometimes"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert run.returncode == 2
    assert run.stderr == "folio-manager: --clear_pages=sometimes: give between_tenants, always or never\n"
