"""Parts of a budget that stay with parts of the text, followed through a long answer by what the worker reports."""

import collections

import folio
import pytest
from oracle_cases import CASES

PROSE = next(case.prompt for case in CASES if case.name == "long_prose")
PAGE, LAYERS, PROMPT, BUDGET = 16, 30, 320, 128
POLICIES = ["paged_eviction", "query_diff", "snap_kv:window=16", "kv_crush:key_diff", "streaming_llm", "random:seed=3"]


@pytest.fixture
def client(nothing_lost):
    with folio.Client(nothing_lost.worker_address(), nothing_lost.manager_address, timeout=240) as client:
        yield client


def held(client, length=260, **cache):
    """(compaction, [(positions of each layer before a drop, block of each layer, positions after it)]) of an answer."""
    answer = client.generate(
        tokens=PROSE[:PROMPT], budget=BUDGET, max_tokens=length, ignore_eos=True, eviction_mode="synchronous",
        report_evictions=True, **cache,
    ).result()  # fmt: skip
    compaction, *drops = answer.evictions
    layers = [list(layer.kept) for layer in compaction.layers]
    played, decoded = [], 0
    for drop in drops:
        # The step that filled the page ran before the drop.
        while len(layers[0]) < BUDGET + PAGE:
            for layer in layers:
                layer.append(PROMPT + decoded)
            decoded += 1
        before, blocks = layers, [layer.dropped_block for layer in drop.layers]
        layers = [
            layer[: block * PAGE] + layer[(block + 1) * PAGE :] for layer, block in zip(before, blocks, strict=True)
        ]
        played.append(([list(layer) for layer in before], blocks, [list(layer) for layer in layers]))
    assert len(compaction.layers) == LAYERS and len(played) >= 15
    return compaction, played


def kept_after(played):
    return [after for _, _, after in played]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_ends_of_the_prompt_stay(client, policy):
    compaction, played = held(client, policy=policy, protect_ends=0.25)
    after = kept_after(played)
    ends = [*range(32), *range(PROMPT - 32, PROMPT)]
    for layer in [layer.kept for layer in compaction.layers] + [layer for layers in after for layer in layers]:
        assert set(ends) <= set(layer)
    # The rest of the prompt goes in time, unless a policy wants it.
    if policy == "streaming_llm":
        assert all([one for one in layer if one < PROMPT] == ends for layer in after[-1])


@pytest.mark.parametrize("policy", POLICIES)
def test_generation_leaves_the_prompt_its_share(client, policy):
    after = kept_after(held(client, policy=policy, prompt_share=0.5)[1])
    left = [[sum(position < PROMPT for position in layer) for layer in layers] for layers in after]
    assert min(min(layers) for layers in left) >= BUDGET / 2
    if policy == "streaming_llm":
        assert set(left[-1]) == {BUDGET // 2}


def test_without_a_share_an_answer_takes_the_prompt(client):
    after = kept_after(held(client, policy="streaming_llm")[1])
    assert all(sum(position < PROMPT for position in layer) == PAGE for layer in after[-1])


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "streaming_llm"])
def test_each_segment_keeps_its_quota(client, policy):
    segments = 4
    compaction, played = held(client, policy=policy, segments=segments, layers="shared")

    def segment(position, length):
        return next(at for at in range(segments) if position < length * (at + 1) // segments)

    # One page at each end is protected. KVCrush has representatives, and query_diff gives one half to what the prompt's end
    # asks about. Three quarters of the rest are dealt out.
    free = BUDGET - 2 * PAGE - (BUDGET // 4 if policy.startswith("kv_crush") else 0)
    if policy == "query_diff":
        free //= 2
    for layer in compaction.layers:
        counts = collections.Counter(segment(position, PROMPT) for position in layer.kept)
        assert min(counts[at] for at in range(segments)) >= free * 3 // 4 // segments
    # In decode too, KVCrush keeps a quarter for representatives. So little is left of this budget that no segment has a page for itself.
    ranked = BUDGET // PAGE - 2 - (BUDGET // PAGE // 4 if policy.startswith("kv_crush") else 0)
    quota = ranked * 3 // 4 // segments
    assert quota == (0 if policy.startswith("kv_crush") else 1)
    for before, blocks, after in played:
        assert len(set(blocks)) == 1 and all(layer == after[0] for layer in after)
        length = before[0][-1] + 1
        # A page belongs to the segment of its first token. The first and the last page are protected.
        pages = [segment(position, length) for position in before[0][::PAGE]]
        counts = collections.Counter(pages[1:-1])
        assert counts[pages[blocks[0]]] > quota or max(counts.values()) <= quota


def test_a_streamed_compaction_keeps_the_ends_too(client):
    compactions = client.generate(
        tokens=PROSE[:400], policy="key_diff", budget=128, protect_ends=0.25, compaction="streamed", compaction_stride=64,
        max_tokens=1, ignore_eos=True, report_evictions=True,
    ).result().evictions  # fmt: skip
    assert len(compactions) > 3
    for eviction in compactions:
        for layer in eviction.layers:
            assert set(layer.kept[:32]) == set(range(32))
            assert list(layer.kept[-32:]) == list(range(layer.kept[-1] - 31, layer.kept[-1] + 1))


def test_an_answer_names_the_shares(client):
    answer = client.generate(
        tokens=PROSE[:64], policy="paged_eviction", budget=128, prompt_share=0.3, protect_ends=0.1, segments=3, max_tokens=1
    ).result()
    cache = answer.started.cache
    assert (cache.prompt_share, cache.protect_ends, cache.segments) == (0.3, 0.1, 3)


def test_a_dry_run_takes_shares(client):
    with client.generate(tokens=PROSE[:320], policy="paged_eviction", budget=512, max_tokens=100, ignore_eos=True) as running:
        # When the second token is decoded, the manager knows that the prompt has ended.
        next(running), next(running)
        plain = client.explain(running.started.sequence_id, "paged_eviction", 128)
        ends = client.explain(running.started.sequence_id, "paged_eviction", 128, protect_ends=0.25)
        # It holds less than its budget, so nothing may go.
        few = client.explain(running.started.sequence_id, "paged_eviction", 512, prompt_share=0.9)
    assert ends.layers[0].drop_tokens[0][0] >= 32 > plain.layers[0].drop_tokens[0][0] >= 16
    assert few.layers[0].resident_tokens < 512 and few.layers[0].drop_block is None


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ({"budget": 32, "protect_ends": 0.4}, "protect_ends"),
        ({"budget": 128, "policy": "streaming_llm", "segments": 2}, "segments 2 does not go with policy streaming_llm"),
    ],
)
def test_what_does_not_fit_is_refused(client, cache, words):
    with pytest.raises(folio.InvalidArgument, match=words):
        client.generate(tokens=PROSE[:20], max_tokens=1, **{"policy": "paged_eviction", **cache}).text()
