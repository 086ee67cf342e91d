"""What is sent for which arguments, and that every field of an answer has its place."""

import dataclasses
import json
import doctest

import pytest
from scripted import started

import folio
import folio.messages
import folio.policies
from folio.v1 import admin_pb2, inference_pb2, types_pb2

POLICIES = {
    "full": folio.Full(),
    "paged_eviction": folio.PagedEviction(),
    "streaming_llm": folio.StreamingLlm(),
    "inverse_key_norm": folio.InverseKeyNorm(),
    "value_norm": folio.ValueNorm(),
    "key_diff": folio.KeyDiff(),
    "snap_kv": folio.SnapKv(),
    "snap_kv:window=32": folio.SnapKv(window=32),
    "snap_kv:pool=1": folio.SnapKv(pool=1),
    "snap_kv:window=64,pool=7": folio.SnapKv(64, 7),
    "query_diff": folio.QueryDiff(),
    "query_diff:share=0.5,window=16,pool=31": folio.QueryDiff(0.5, 16, 31),
    "query_diff:share=0": folio.QueryDiff(share=0),
    "query_diff:share=1,pool=3": folio.QueryDiff(share=1.0, pool=3),
    "query_diff:share=0.3,window=8": folio.QueryDiff(0.3, 8),
    "query_diff:neighbours=0,judges_from=0,judges_to=1": folio.QueryDiff(neighbours=0, judges_from=0, judges_to=1.0),
    "random": folio.Random(),
    "random:seed=0": folio.Random(seed=0),
    "random:seed=18446744073709551615": folio.Random(seed=2**64 - 1),
    "kv_crush:paged_eviction": folio.KvCrush(),
    "kv_crush:key_diff,share=0.1": folio.KvCrush(folio.KeyDiff(), share=0.1),
    "kv_crush:inverse_key_norm,share=0,anchor=zeros": folio.KvCrush(folio.InverseKeyNorm(), 0, "zeros"),
    "kv_crush:snap_kv,window=8,anchor=random,seed=5": folio.KvCrush(folio.SnapKv(8), anchor="random", seed=5),
    "kv_crush:snap_kv,window=8,pool=5,share=0.5": folio.KvCrush(folio.SnapKv(8, 5), 0.5),
    "kv_crush:key_diff,share=0.5,decode=base": folio.KvCrush(folio.KeyDiff(), 0.5, prefill_only=True),
}


@pytest.mark.parametrize("text", POLICIES)
def test_policies_as_text_and_as_messages(text):
    policy = POLICIES[text]
    assert folio.policy(text) == policy and str(policy) == text
    message = folio.policies.to_message(policy)
    assert message.WhichOneof("kind") == policy.kind
    sent = types_pb2.Policy.FromString(message.SerializeToString())
    assert folio.policies.from_message(sent) == policy


def test_every_policy_of_the_protocol_is_there():
    kinds = types_pb2.Policy.DESCRIPTOR.oneofs_by_name["kind"].fields
    assert {field.name for field in kinds} == set(folio.policies.KINDS) == {one.kind for one in POLICIES.values()}
    for field in kinds:
        wanted = set(field.message_type.fields_by_name)
        if field.name == "kv_crush":
            wanted -= {base.name for base in field.message_type.oneofs_by_name["base"].fields}
            wanted.add("base")
        assert {one.name for one in dataclasses.fields(folio.policies.KINDS[field.name])} == wanted
    assert set(folio.policies.ANCHORS) == {"mean", "alternating", "zeros", "ones", "random"}
    assert folio.policies.from_message(types_pb2.Policy()) is None, "a policy of a later version is no error"


def test_a_base_may_come_later():
    assert folio.policy("kv_crush:share=0.5,key_diff") == folio.KvCrush(folio.KeyDiff(), 0.5)
    assert folio.policy(" kv_crush: seed=1 , window=4, snap_kv ") == folio.KvCrush(folio.SnapKv(4), seed=1)
    assert folio.policy("kv_crush:pool=3,snap_kv,window=4") == folio.KvCrush(folio.SnapKv(4, 3))
    assert folio.policy("kv_crush") == folio.policy("kv_crush:decode=crush") == folio.KvCrush()


def test_kv_crush_lets_the_manager_choose():
    message = folio.policies.to_message(folio.policy("kv_crush:share=0.5")).kv_crush
    assert message.WhichOneof("base") == "paged_eviction" and message.share == 0.5
    assert message.anchor == types_pb2.CRUSH_ANCHOR_UNSPECIFIED
    assert not folio.policies.to_message(folio.KvCrush()).kv_crush.HasField("share")


def test_what_is_not_given_is_not_sent():
    assert folio.policies.to_message(folio.QueryDiff()).query_diff == types_pb2.QueryDiffPolicy()
    message = folio.policies.to_message(folio.policy("query_diff:pool=31,share=0")).query_diff
    assert message == types_pb2.QueryDiffPolicy(share=0, pool=31) and message.HasField("share")
    assert not message.HasField("window")
    assert folio.policies.to_message(folio.SnapKv(pool=3)).snap_kv == types_pb2.SnapKvPolicy(pool=3)


def sent(server, client, **arguments):
    """The request of a generation with these arguments; it need not come to anything."""
    with client.generate(**{"prompt": "x", **arguments}) as generation, pytest.raises(folio.Internal):
        generation.text()
    return server.requests[-1]


def test_a_plain_request_says_nothing_but_its_text(server, client):
    expected = inference_pb2.GenerateRequest(input=inference_pb2.Input(text="x"))
    expected.cache.SetInParent()
    expected.sampling.SetInParent()
    assert sent(server, client) == expected


def test_every_argument_has_its_field(server, client):
    request = sent(
        server, client, prompt=None, tokens=range(3), policy="snap_kv:window=7", budget=512, sink_tokens=0, recent_tokens=32,
        eviction_mode="synchronous", schedule="pyramid", max_tokens=9, stop=("a", "b"), ignore_eos=True, temperature=0.5,
        top_k=40, top_p=0.75, min_p=0.25, seed=0, logprobs=0, report_evictions=True, label="me",
        presence_penalty=0.5, frequency_penalty=-0.25, repetition_penalty=1.5, logit_bias={7: -100, 9: 1.5},
        min_tokens=3, stop_token_ids=[4, 5], json_schema={"type": "integer"},
    )
    cache = types_pb2.CacheOptions(
        policy=types_pb2.Policy(snap_kv=types_pb2.SnapKvPolicy(window=7)), budget_tokens=512, sink_tokens=0,
        recent_tokens=32, eviction_mode=types_pb2.EVICTION_MODE_SYNCHRONOUS,
        budget_schedule=types_pb2.BUDGET_SCHEDULE_PYRAMID,
    )
    assert request == inference_pb2.GenerateRequest(
        input=inference_pb2.Input(tokens=inference_pb2.TokenIds(ids=[0, 1, 2])), cache=cache,
        sampling=types_pb2.SamplingParams(
            temperature=0.5, top_k=40, top_p=0.75, min_p=0.25, seed=0, presence_penalty=0.5, frequency_penalty=-0.25,
            repetition_penalty=1.5,
            logit_bias=[types_pb2.LogitBias(token=7, bias=-100), types_pb2.LogitBias(token=9, bias=1.5)],
        ),
        min_tokens=3,
        stop_token_ids=[4, 5],
        format=types_pb2.OutputFormat(json_schema='{"type": "integer"}'),
        max_tokens=9, stop=["a", "b"], ignore_eos=True, logprobs=0, report_evictions=True, label="me",
    )
    assert request.HasField("logprobs") and request.sampling.HasField("seed") and request.cache.HasField("sink_tokens")


@pytest.mark.parametrize("budget, tokens, share", [(1, 1, 0), (512, 512, 0), (1.0, 0, 1), (0.25, 0, 0.25)])
def test_a_budget_is_tokens_or_a_share(server, client, budget, tokens, share):
    cache = sent(server, client, policy="key_diff", budget=budget).cache
    assert (cache.budget_tokens, cache.budget_share) == (tokens, share)


def test_layer_budgets_and_a_single_stop(server, client):
    request = sent(server, client, policy="key_diff", layer_budgets=(64, 32), stop="end")
    assert list(request.cache.layer_budget_tokens) == [64, 32] and list(request.stop) == ["end"]


@pytest.mark.parametrize("layers, number", [(None, 0), ("per_layer", 1), ("shared", 2)])
def test_layers_choose_by_themselves_or_together(server, client, layers, number):
    assert sent(server, client, policy="key_diff", budget=64, layers=layers).cache.layers == number


def test_shares_of_the_budget(server, client):
    cache = sent(server, client, policy="key_diff", budget=64, prompt_share=0.9, protect_ends=0.4, segments=64).cache
    shares = folio.messages.read(cache)
    assert (shares.prompt_share, shares.protect_ends, shares.segments) == (0.9, 0.4, 64)
    plain = sent(server, client, policy="full", prompt_share=0, protect_ends=0, segments=1).cache
    assert (plain.prompt_share, plain.protect_ends) == (0, 0)


def test_chats_of_dicts_and_of_pairs(server, client):
    turns = [("system", "Be brief."), ("user", "Hi")]
    sent(server, client, prompt=None, chat=turns)
    sent(server, client, prompt=None, chat=[{"role": role, "content": content} for role, content in turns])
    one, other = server.requests
    assert one == other
    assert [(turn.role, turn.content) for turn in one.input.chat.messages] == turns


def test_chats_with_tools_fields_and_arguments(server, client):
    calls = [{"function": {"name": "weather", "arguments": {"town": "Köln"}}}]
    turns = [("user", "Hi"), {"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "content": "dry"}]
    chat = sent(
        server, client, prompt=None, chat=turns, tools=({"name": name} for name in "ab"), template_arguments={"deep": False}
    ).input.chat
    assert [(turn.role, turn.content) for turn in chat.messages] == [("user", "Hi"), ("assistant", ""), ("tool", "dry")]
    assert [turn.fields for turn in chat.messages] == ["", json.dumps({"tool_calls": calls}, ensure_ascii=False), ""]
    assert (json.loads(chat.tools), json.loads(chat.template_arguments)) == ([{"name": "a"}, {"name": "b"}], {"deep": False})


def test_explain_takes_the_sequences_own_options_or_others(server, client):
    client.explain(7)
    client.explain(7, folio.KeyDiff(), 0.5, recent_tokens=64)
    own, other = server.requests
    assert own == admin_pb2.ExplainEvictionRequest(sequence_id=7)
    assert other.cache.policy.HasField("key_diff") and other.cache.budget_share == 0.5 and other.cache.recent_tokens == 64


RESULTS = [
    (folio.CacheOptions, types_pb2.CacheOptions), (folio.ModelLayout, types_pb2.ModelLayout),
    (folio.PageRef, types_pb2.PageRef), (folio.Candidate, inference_pb2.Candidate),
    (folio.TokenLogprob, inference_pb2.TokenLogprob), (folio.Chunk, inference_pb2.TokenChunk),
    (folio.EvictedLayer, inference_pb2.EvictionEvent.Layer), (folio.Eviction, inference_pb2.EvictionEvent),
    (folio.Started, inference_pb2.Started), (folio.Usage, inference_pb2.Usage),
    (folio.CacheStats, inference_pb2.CacheStats), (folio.Finished, inference_pb2.Finished),
    (folio.Model, inference_pb2.GetModelResponse), (folio.AttachedWorker, admin_pb2.AttachedWorker),
    (folio.RankMemory, admin_pb2.RankMemory), (folio.Device, admin_pb2.Device), (folio.Pool, admin_pb2.Pool),
    (folio.SequenceInfo, admin_pb2.Sequence), (folio.LayerTable, admin_pb2.LayerTable),
    (folio.SequenceTables, admin_pb2.GetSequenceResponse), (folio.ExplainedLayer, admin_pb2.ExplainedLayer),
    (folio.Explanation, admin_pb2.ExplainEvictionResponse), (folio.Worker, admin_pb2.Worker),
    (folio.WorkerProcess, admin_pb2.WorkerProcess), (folio.Fence, admin_pb2.Fence), (folio.Event, admin_pb2.Event),
    (folio.LostEvents, admin_pb2.LostEvents), (folio.Tenant, admin_pb2.Tenant), (folio.PageRun, admin_pb2.PageRun),
    (folio.PastPlan, admin_pb2.PastPlan), (folio.Loss, admin_pb2.PastPlan.Loss),
]  # fmt: skip


@pytest.mark.parametrize("result, message", RESULTS, ids=lambda one: one.__name__)
def test_results_hold_what_their_messages_hold(result, message):
    assert [field.name for field in dataclasses.fields(result)] == [field.name for field in message.DESCRIPTOR.fields]
    assert isinstance(folio.messages.read(message()), result), "an answer with nothing in it can be read"


def test_answers_are_read():
    got = folio.messages.read(started().started)
    assert got.cache == folio.CacheOptions(folio.PagedEviction(), 64, 0.0, "unspecified", (), 16, None, "unspecified")
    event = inference_pb2.EvictionEvent(step=-1)
    event.layers.add(kept=[0, 5], dropped_block=-1)
    event.layers.add(dropped_block=0)
    assert folio.messages.read(event).layers == (folio.EvictedLayer((0, 5), None), folio.EvictedLayer((), 0))
    table = admin_pb2.LayerTable(pages=[types_pb2.PageRef(page=3, generation=1)], resident_tokens=5)
    table.kept.add(begin=0, end=4)
    table.kept.add(begin=9, end=10)
    assert folio.messages.read(table) == folio.LayerTable((folio.PageRef(3, 1),), 5, (range(4), range(9, 10)))
    assert folio.messages.read(admin_pb2.Sequence(state=admin_pb2.SEQUENCE_STATE_DECODE)).state == "decode"
    device = admin_pb2.Device(device="cuda:0", uuid="GPU-1", name="H200", free_bytes=0, ranks=[1])
    assert folio.messages.read(device) == folio.Device("cuda:0", "GPU-1", "H200", None, 0, (1,))
    assert folio.messages.read(types_pb2.ModelLayout(data_type=1)).data_type == "bfloat16"
    assert folio.messages.read(types_pb2.CacheOptions(budget_share=0.1)).budget_share == 0.1
    newer = inference_pb2.Finished.FromString(b"\x08\x63")
    assert folio.messages.read(newer).reason == "99", "a reason of a later version is no error"
    explained = admin_pb2.ExplainedLayer(scores=[0.5, 1.5])
    assert folio.messages.read(explained).drop_block is None and folio.messages.read(explained).scores == (0.5, 1.5)
    explained.drop_block = 0
    assert folio.messages.read(explained).drop_block == 0


def test_the_docstrings_examples():
    failed, tried = doctest.testmod(folio.policies)
    assert tried >= 5 and not failed
