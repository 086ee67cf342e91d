#include "tests/wire/random_session.h"

#include <utility>

namespace folio::wire {

SessionRequest RandomSession::Request() {
  SessionRequest request;
  request.step = Number64();
  for (uint32_t i = Below(4); i > 0; --i) request.open.push_back(Open());
  for (uint32_t i = Below(3); i > 0; --i) {
    request.claim.push_back({Number64(), SequenceId(Number64()), Text(), TokenCount(Number()),
                             Below(2) == 0, Below(2) == 0});
    if (Below(2) == 0) request.claim.back().tenant = Text();
  }
  for (uint32_t i = Below(4); i > 0; --i) request.commit.push_back(Commit());
  for (uint32_t i = Below(3); i > 0; --i) {
    request.ack.push_back({SequenceId(Number64()), LeaseEpoch(Number()), PlanEpoch(Number64())});
  }
  for (uint32_t i = Below(3); i > 0; --i) {
    request.close.push_back(
        {SequenceId(Number64()), LeaseEpoch(Number()), static_cast<CloseReason>(Below(5))});
  }
  for (uint32_t i = Below(3); i > 0; --i) {
    request.park.push_back({SequenceId(Number64()), LeaseEpoch(Number()), Below(2) == 0});
  }
  for (uint32_t i = Below(3); i > 0; --i) {
    request.unpark.push_back({SequenceId(Number64()), LeaseEpoch(Number())});
  }
  if (Below(4) != 0) request.progress = {Number64(), Number()};
  return request;
}

SessionReply RandomSession::Reply() {
  SessionReply reply;
  reply.step = Number64();
  for (uint32_t i = Below(3); i > 0; --i) reply.opened.push_back(Opened());
  for (uint32_t i = Below(3); i > 0; --i) reply.claimed.push_back(Claimed());
  for (uint32_t i = Below(3); i > 0; --i) {
    reply.granted.push_back({SequenceId(Number64()), PageLists()});
  }
  for (uint32_t i = Below(3); i > 0; --i) {
    reply.plans.push_back(Below(2) == 0 ? Drop() : AnyPlan());
  }
  for (uint32_t i = Below(3); i > 0; --i) {
    reply.failed.push_back({SequenceId(Number64()), Failure()});
  }
  for (uint32_t i = Below(3); i > 0; --i) reply.unparked.push_back(Unparked());
  for (uint32_t i = Below(3); i > 0; --i) reply.park.emplace_back(Number64());
  for (uint32_t i = Below(3); i > 0; --i) {
    reply.swap.push_back({SequenceId(Number64()), Slots()});
  }
  reply.clear_pages = Below(2) == 0;
  return reply;
}

PageList RandomSession::Pages() {
  PageList pages(Below(5));
  for (PageRef& page : pages) page = {PageId(Number()), Generation(Number())};
  return pages;
}

LayerPageLists RandomSession::PageLists() {
  LayerPageLists lists(num_layers_);
  for (PageList& list : lists) list = Pages();
  return lists;
}

std::vector<ClaimedLayer> RandomSession::ClaimedLayers() {
  std::vector<ClaimedLayer> layers(num_layers_);
  for (ClaimedLayer& layer : layers) {
    layer.pages = Pages();
    for (uint32_t i = Below(4); i > 0; --i) {
      layer.positions.push_back({Position(Number()), Position(Number())});
    }
    layer.slots = Slots();
  }
  return layers;
}

std::vector<SwapSlot> RandomSession::Slots() {
  std::vector<SwapSlot> slots(Below(4));
  for (SwapSlot& slot : slots) slot = SwapSlot(Number());
  return slots;
}

std::vector<TokenId> RandomSession::Tokens() {
  std::vector<TokenId> tokens(Below(9));
  for (TokenId& token : tokens) token = TokenId(Number());
  return tokens;
}

CacheOptionsBytes RandomSession::Options(v1::CacheOptions* options) {
  if (Below(2) == 0) options->set_budget_tokens(16 * (1 + Below(100)));
  if (Below(2) == 0) options->mutable_policy()->mutable_random()->set_seed(Number64());
  if (Below(2) == 0) options->set_sink_tokens(Below(2) * 16);
  options->set_eviction_mode(static_cast<v1::EvictionMode>(Below(3)));
  options->set_layers(static_cast<v1::Layers>(Below(3)));
  if (Below(3) == 0) options->set_prompt_share(static_cast<float>(Below(10)) / 9);
  if (Below(3) == 0) options->set_protect_ends(static_cast<float>(Below(5)) / 9);
  if (Below(3) == 0) options->set_segments(Below(66));
  options->set_compaction(static_cast<v1::Compaction>(Below(3)));
  if (Below(2) == 0) options->set_compaction_stride_tokens(16 * Below(100));
  return {options->SerializeAsString()};
}

ResolvedCache RandomSession::Resolved() {
  ResolvedCache cache;
  v1::CacheOptions options;
  Options(&options);
  if (options.budget_tokens() > 0) {
    const bool differ = Below(2) == 0;
    cache.layer_budgets.assign(differ ? num_layers_ : 1, TokenCount(options.budget_tokens()));
    for (uint32_t i = 0; differ && i < num_layers_; ++i) {
      cache.layer_budgets[i] = TokenCount(options.budget_tokens() + i);
      options.add_layer_budget_tokens(cache.layer_budgets[i].value());
    }
    cache.synchronous = options.eviction_mode() == v1::EVICTION_MODE_SYNCHRONOUS;
    if (options.compaction() == v1::COMPACTION_STREAMED) {
      cache.compaction_stride = TokenCount(options.compaction_stride_tokens());
    }
  }
  cache.options.bytes = options.SerializeAsString();
  return cache;
}

std::string RandomSession::Output() {
  v1::OutputOptions output;
  for (uint32_t i = Below(3); i > 0; --i) output.add_stop(Text());
  output.set_ignore_eos(Below(2) == 0);
  if (Below(2) == 0) output.set_logprobs(Below(5));
  output.set_min_tokens(Below(3));
  for (uint32_t i = Below(3); i > 0; --i) output.add_stop_token_ids(Number());
  if (Below(2) == 0) output.mutable_format()->set_json_schema(Text());
  return output.SerializeAsString();
}

SamplingParameters RandomSession::Sampling() {
  SamplingParameters sampling;
  sampling.temperature = Fraction();
  sampling.top_k = Number();
  if (Below(2) == 0) sampling.top_p = Fraction();
  sampling.min_p = Fraction();
  if (Below(2) == 0) sampling.seed = Number64();
  sampling.changes = Changes();
  return sampling;
}

LogitChanges RandomSession::Changes() {
  LogitChanges changes;
  changes.presence_penalty = Fraction();
  changes.frequency_penalty = Fraction();
  if (Below(2) == 0) changes.repetition_penalty = Fraction();
  for (uint32_t i = Below(3); i > 0; --i) changes.biases.push_back({TokenId(Number()), Fraction()});
  return changes;
}

ScoreNeed RandomSession::Scores() {
  const ScoreTraits& traits = kScoreKinds[Below(kNumScoreKinds)];
  return {traits.kind, traits.time, Number(), Number()};
}

absl::Status RandomSession::Failure() {
  return {static_cast<absl::StatusCode>(1 + Below(16)), "because of " + Text()};
}

OpenSequence RandomSession::Open() {
  OpenSequence open;
  open.request_tag = Number64();
  open.prompt = Tokens();
  open.max_new_tokens = TokenCount(Number());
  v1::CacheOptions options;
  open.cache = Options(&options);
  open.sampling = Sampling();
  open.label = Text();
  open.resume_token = Text();
  open.output = Output();
  open.waits_for_room = Below(2) == 0;
  open.prefill_ahead = TokenCount(Number());
  open.may_be_parked = Below(2) == 0;
  open.compacts_in_prefill = Below(2) == 0;
  open.tenant = Text();
  open.may_be_swapped = Below(2) == 0;
  open.urgency = {static_cast<int32_t>(Below(201)) - 100, absl::Milliseconds(Number())};
  return open;
}

UnparkResult RandomSession::Unparked() {
  UnparkResult result;
  result.sequence = SequenceId(Number64());
  if (Below(3) == 0) {
    result.status = Failure();
    result.may_fit_later = Below(2) == 0;
  } else if (Below(2) == 0) {
    result.pages = PageLists();
  } else {
    result.swapped = ClaimedLayers();
    result.logical_length = TokenCount(Number());
  }
  return result;
}

CommitTokens RandomSession::Commit() {
  return {SequenceId(Number64()), LeaseEpoch(Number()), TokenCount(Number()), Tokens(), Pages()};
}

Plan RandomSession::AnyPlan() {
  CompactAction compact;
  for (uint32_t layer = 0; layer < num_layers_; ++layer) {
    compact.keep.emplace_back(Below(6));
    for (TokenSlot& slot : compact.keep.back()) slot = TokenSlot(Number());
    compact.spare.emplace_back(Below(3));
  }
  return {SequenceId(Number64()), PlanEpoch(Number64()), std::move(compact)};
}

Plan RandomSession::Drop() {
  DropAction drop;
  drop.block.resize(num_layers_);
  const bool every_layer = Below(2) == 0;
  for (auto& block : drop.block) {
    if (every_layer || Below(2) == 0) block = BlockIndex(Number());
  }
  drop.block[Below(num_layers_)] = BlockIndex(Number());  // a plan drops something
  return {SequenceId(Number64()), PlanEpoch(Number64()), std::move(drop)};
}

OpenResult RandomSession::Opened() {
  OpenResult opened;
  opened.request_tag = Number64();
  if (Below(4) == 0) {
    opened.status = Failure();
    opened.may_fit_later = Below(2) == 0;
    return opened;
  }
  opened.sequence = SequenceId(Number64());
  opened.lease_epoch = LeaseEpoch(Number());
  opened.cache = Resolved();
  opened.pages = PageLists();
  opened.scores = Scores();
  opened.prompt_scores = Scores();
  opened.scored_layers = {Number(), Number()};
  return opened;
}

ClaimResult RandomSession::Claimed() {
  ClaimResult claimed;
  claimed.request_tag = Number64();
  if (Below(4) == 0) {
    claimed.status = Failure();
    claimed.may_fit_later = Below(2) == 0;
    return claimed;
  }
  claimed.sequence = SequenceId(Number64());
  claimed.lease_epoch = LeaseEpoch(Number());
  claimed.cache = Resolved();
  claimed.sampling = {Fraction(), Number(), Fraction(), Fraction(), Number64(), Changes()};
  claimed.output = Output();
  claimed.label = Text();
  claimed.tenant = Text();
  claimed.priority = static_cast<int32_t>(Below(201)) - 100;
  claimed.max_new_tokens = TokenCount(Number());
  claimed.prompt_tokens = TokenCount(Number());
  claimed.tokens = Tokens();
  claimed.logical_length = TokenCount(Number());
  claimed.layers = ClaimedLayers();
  claimed.evicted_pages = PageCount(Number());
  claimed.scores = Scores();
  claimed.prompt_scores = Scores();
  claimed.scored_layers = {Number(), Number()};
  if (Below(2) == 0) claimed.plan = Drop();
  return claimed;
}

}  // namespace folio::wire
