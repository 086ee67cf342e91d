"""Where memory is: workers keep no KV, the pool is pages and nothing else, budgets hold in between."""

import os

import grpc

from node import Node, anonymous_bytes, cache, side_by_side, tokens
from oracle_cases import CASES
from stubs import inference_pb2

PROSE = next(case.prompt for case in CASES if case.name == "long_prose")
MIB = 1 << 20
LOOKS = 100


def long_prompt(length):
    return (PROSE * (length // len(PROSE) + 1))[:length]


def run(stub, prompt, options, new_tokens, on_event=None):
    request = inference_pb2.GenerateRequest(
        input=tokens(prompt), cache=options, max_tokens=new_tokens, ignore_eos=True, label="memory"
    )
    for event in stub.Generate(request, timeout=600):
        if on_event is not None:
            on_event(event)
    return event.finished


def test_the_pool_is_its_pages(bfloat16):
    pool = bfloat16.pool()
    layout = pool.layout
    # K and V of a page's tokens, for the KV heads of one layer, in bfloat16.
    assert pool.page_bytes == 2 * layout.num_kv_heads * layout.page_tokens * layout.head_dim * 2
    assert pool.pool_bytes == pool.total_pages * pool.page_bytes
    assert pool.free_pages + pool.held_pages + pool.quarantined_pages == pool.total_pages
    # All of --pool_bytes=1GiB but a fraction of a page.
    assert (1 << 30) - pool.page_bytes < pool.pool_bytes <= 1 << 30


def shared_memory(pid):
    """The size of each memfd of a process, and how much of it the machine has given."""
    sizes = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        link = f"/proc/{pid}/fd/{number}"
        name = os.readlink(link)
        if name.startswith("/memfd:folio-"):
            status = os.stat(link)
            sizes[name.split()[0]] = status.st_size, status.st_blocks * 512
    return sizes


def test_prefault_takes_the_memory_when_the_pool_is_made(tiny_model):
    for flags in ([], ["--prefault"]):
        with Node(pool="32MiB", manager_flags=flags) as node:
            node.start_worker(model=tiny_model)
            memory = shared_memory(node.manager.pid)
            assert set(memory) == {"/memfd:folio-pool", "/memfd:folio-scores"}
            for name, (size, taken) in memory.items():
                assert taken >= size if flags else taken < size, (name, size, taken)
            node.manager.says("session began")
            assert ("taking the pool's memory" in node.manager.words()) == bool(flags)


def test_workers_keep_no_kv(nothing_lost):
    """Four sequences of thousands of tokens: their KV is in the pool, none of it in the worker."""
    stub, pid = nothing_lost.stub, nothing_lost.workers["worker"].pid
    kv_bytes = stub.GetModel(inference_pb2.GetModelRequest()).kv_bytes_per_token

    def four(length, new_tokens, on_event=None):
        side_by_side(*[lambda: run(stub, long_prompt(length), cache("full"), new_tokens, on_event)] * 4)

    # Buffers of a step are as large as a step; after this they have been made.
    four(600, 20)
    before = anonymous_bytes(pid)
    seen, held = [before], []

    def look(event):
        if event.HasField("prefill") or (event.HasField("chunk") and len(seen) % 8 == 0):
            held.append(nothing_lost.pool().held_pages)
        seen.append(anonymous_bytes(pid))

    # The first still decodes when the last prompt ends, whatever the size of chunks.
    four(1500, 250, look)
    in_pool = max(held) * nothing_lost.pool().page_bytes
    assert in_pool > 4 * 1200 * kv_bytes, f"{in_pool >> 20} MiB in the pool"
    growth = max(seen) - before
    print(f"{in_pool / MIB:.0f} MiB in the pool, the worker grew by {growth / MIB:.1f} MiB of {before / MIB:.0f}")
    assert growth < 6 * MIB, f"the worker grew by {growth / MIB:.1f} MiB while the pool took {in_pool / MIB:.0f}"


def check_budget(node, policy, mode):
    budget, page = 128, 16
    looked = []

    def look(event):
        if event.HasField("started"):
            look.sequence = event.started.sequence_id
        if not event.HasField("chunk"):
            return
        try:
            detail = node.sequence(look.sequence)
        except grpc.RpcError as error:
            # The last chunks may still be on their way when the sequence has ended.
            assert error.code() is grpc.StatusCode.NOT_FOUND, error
            return
        # A chunk reaches the client before or after the plan of the prompt is carried out.
        if not detail.sequence.evicted_tokens:
            return
        looked.append(max(len(layer.pages) for layer in detail.layers))
        for index, layer in enumerate(detail.layers):
            assert len(layer.pages) <= budget // page + 2, f"layer {index} holds {len(layer.pages)} pages"
            resident = sum(kept.end - kept.begin for kept in layer.kept)
            assert resident == layer.resident_tokens <= budget + 2 * page
        assert sum(len(layer.pages) for layer in detail.layers) == detail.sequence.held_pages

    # However slow the reader is beside the worker, the generation lasts until it has looked often enough.
    request = inference_pb2.GenerateRequest(
        input=tokens(long_prompt(400)), cache=cache(policy, budget, mode), max_tokens=7000, ignore_eos=True, label="memory"
    )
    call = node.stub.Generate(request, timeout=600)
    for event in call:
        look(event)
        if len(looked) == LOOKS:
            break
    call.cancel()
    assert len(looked) == LOOKS, f"looked {len(looked)} times"
    finished = run(node.stub, long_prompt(400), cache(policy, budget, mode), 2)
    assert finished.cache.peak_resident_tokens >= 400  # the prompt was whole before


def test_budget_holds_between_steps_paged_eviction_pipelined(nothing_lost):
    check_budget(nothing_lost, "paged_eviction", "pipelined")


def test_budget_holds_between_steps_paged_eviction_synchronous(nothing_lost):
    check_budget(nothing_lost, "paged_eviction", "synchronous")


def test_budget_holds_between_steps_streaming_llm_pipelined(nothing_lost):
    check_budget(nothing_lost, "streaming_llm", "pipelined")


def test_a_full_pool_lets_requests_wait():
    """By their worst case, 87,381 pages hold 5,800 tokens eight times; the one too many is told its place and waits."""
    with Node(manager_flags=["--admission=reserve"]) as node:
        stub = node.start_worker()
        pool = node.pool()
        layers, page = pool.layout.num_layers, pool.layout.page_tokens
        each = 6000
        fit = pool.total_pages // (layers * (each // page + 1))
        calls = []
        for number in range(fit):
            call = stub.Generate(
                inference_pb2.GenerateRequest(
                    input=tokens(PROSE[:20]), max_tokens=each - 20, ignore_eos=True, label=f"fill {number}"
                )
            )
            assert next(call).HasField("started")
            calls.append(call)
        waiting = stub.Generate(inference_pb2.GenerateRequest(input=tokens(PROSE[:20]), max_tokens=each - 20))
        assert next(waiting).prefill.queue_position == 1
        for call in calls:
            assert any(event.HasField("chunk") for event in call)  # each goes on
        calls[0].cancel()
        assert any(event.HasField("chunk") for event in waiting)
        for call in [*calls, waiting]:
            call.cancel()
        node.assert_all_free()
