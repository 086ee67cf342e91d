"""folioctl size computes what the manager promises to a real sequence."""

import json

from node import PATIENCE, cache, tokens, wait_until
from oracle_cases import CASES
from processes import stopped
from stubs import inference_pb2

NEEDLES = next(case for case in CASES if case.name == "needles")


def test_size_is_what_the_manager_promises(folioctl, bfloat16):
    prompt = len(NEEDLES.prompt)
    size = json.loads(folioctl("size", "--prompt", prompt, "--max_tokens", 3000, "--budget", 256, "--output", "json"))
    request = inference_pb2.GenerateRequest(
        input=tokens(NEEDLES.prompt), cache=cache("paged_eviction", 256), max_tokens=3000, ignore_eos=True
    )
    call = bfloat16.stub.Generate(request)

    def promised():
        pool = bfloat16.pool()
        return pool.held_pages + pool.reserved_pages

    try:
        sequence = next(event for event in call if event.HasField("started")).started.sequence_id
        with stopped(bfloat16.workers["worker"].pid):  # while it is at the prompt
            assert promised() == size["prompt_pages"] > size["decode_pages"]
        next(event for event in call if event.HasField("chunk"))
        wait_until(lambda: bfloat16.sequence(sequence).sequence.evicted_tokens, PATIENCE, "the prompt is compacted")
        assert promised() == size["decode_pages"] == 30 * 18
        assert bfloat16.pool().page_bytes == size["page_bytes"]
    finally:
        call.cancel()
    wait_until(lambda: not bfloat16.sequences(), PATIENCE, "the sequence is closed")
