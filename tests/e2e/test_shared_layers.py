"""Layers that decide together: the manager's choice against a twin of its definition, and one table for all layers."""

import math
import statistics

import folio
import pytest
from oracle_cases import CASES

PROSE = next(case.prompt for case in CASES if case.name == "long_prose")
PAGE, LAYERS = 16, 30
POLICIES = ["paged_eviction", "key_diff", "query_diff", "snap_kv:window=16", "kv_crush:paged_eviction", "streaming_llm", "random:seed=3"]


@pytest.fixture
def client(nothing_lost):
    with folio.Client(nothing_lost.worker_address(), nothing_lost.manager_address, timeout=120) as client:
        yield client


def agreed(layers, begin, end):
    """The sums over the layers of the z-scores of [begin, end)."""
    sums = [0.0] * (end - begin)
    for layer in layers:
        middle = layer[begin:end]
        mean, deviation = statistics.fmean(middle), statistics.pstdev(middle)
        for at, value in enumerate(middle):
            sums[at] += (value - mean) / deviation
    return sums


def test_a_dry_run_drops_what_the_definition_says(client):
    with client.generate(tokens=PROSE[:320], policy="paged_eviction", budget=512, max_tokens=100, ignore_eos=True) as running:
        # When the second token is decoded, the manager knows that the prompt has ended.
        next(running), next(running)
        together = client.explain(running.started.sequence_id, "paged_eviction", 128, layers="shared")
        alone = client.explain(running.started.sequence_id, "paged_eviction", 128)
    assert together.cache.layers == "shared" and alone.cache.layers == "per_layer"
    first, *others = together.layers
    assert all(layer.drop_tokens == first.drop_tokens and layer.scores != first.scores for layer in others)
    assert [layer.drop_tokens for layer in alone.layers] != [layer.drop_tokens for layer in together.layers]
    resident = first.resident_tokens
    assert all(math.isfinite(score) for layer in together.layers for score in layer.scores)
    merit = agreed([layer.scores for layer in together.layers], PAGE, resident - PAGE)
    dropped = {position for run in first.drop_tokens for position in run}
    assert len(dropped) == resident - 128
    lowest = [merit[position - PAGE] for position in dropped]
    highest = [value for at, value in enumerate(merit) if at + PAGE not in dropped]
    assert max(lowest) <= min(highest) + 1e-4


@pytest.mark.parametrize("policy", POLICIES)
def test_all_layers_keep_the_same_tokens(client, policy):
    def held(layers):
        return client.generate(
            tokens=PROSE[:320], policy=policy, budget=128, layers=layers, max_tokens=60, ignore_eos=True,
            eviction_mode="synchronous", report_evictions=True,
        ).result()  # fmt: skip

    shared = held("shared")
    assert shared.started.cache.layers == "shared" and len(shared.tokens) == 60
    compaction, *drops = shared.evictions
    assert len(drops) >= 3 and len(compaction.layers) == LAYERS
    assert len(compaction.layers[0].kept) == 128
    for eviction in shared.evictions:
        assert len({(layer.kept, layer.dropped_block) for layer in eviction.layers}) == 1
    assert held("shared").evictions == shared.evictions
    alone = held("per_layer")
    differ = len({layer.kept for layer in alone.evictions[0].layers}) > 1
    assert differ == (policy != "streaming_llm")


def test_a_streamed_compaction_is_shared_too(client):
    shared = client.generate(
        tokens=PROSE[:400], policy="key_diff", budget=128, layers="shared", compaction="streamed", compaction_stride=64,
        max_tokens=20, ignore_eos=True, report_evictions=True,
    ).result()  # fmt: skip
    assert len(shared.evictions) > 3
    for eviction in shared.evictions:
        assert len({layer.kept for layer in eviction.layers}) == 1


def test_what_does_not_go_together_is_refused(client):
    with pytest.raises(folio.InvalidArgument, match="layers shared does not go with policy full"):
        client.generate(tokens=PROSE[:20], layers="shared", max_tokens=1).text()
    uneven = client.generate(
        tokens=PROSE[:320], policy="paged_eviction", budget=128, schedule="pyramid", max_tokens=100, ignore_eos=True,
        eviction_mode="synchronous",
    )  # fmt: skip
    with uneven as running:
        # The second token is decoded, so the prompt is compacted.
        next(running), next(running)
        with pytest.raises(folio.FailedPrecondition, match="its layers hold different tokens"):
            client.explain(running.started.sequence_id, "paged_eviction", 64, layers="shared")
