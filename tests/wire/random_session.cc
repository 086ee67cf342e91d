#include "tests/wire/random_session.h"

#include <utility>

namespace folio::wire {

SessionRequest RandomSession::Request() {
  SessionRequest request;
  request.step = Number64();
  for (uint32_t i = Below(4); i > 0; --i) request.open.push_back(Open());
  for (uint32_t i = Below(3); i > 0; --i) {
    request.claim.push_back({Number64(), SequenceId(Number64()), Text()});
  }
  for (uint32_t i = Below(4); i > 0; --i) request.commit.push_back(Commit());
  for (uint32_t i = Below(3); i > 0; --i) {
    request.ack.push_back({SequenceId(Number64()), LeaseEpoch(Number()), PlanEpoch(Number64())});
  }
  for (uint32_t i = Below(3); i > 0; --i) {
    request.close.push_back(
        {SequenceId(Number64()), LeaseEpoch(Number()), static_cast<CloseReason>(Below(5))});
  }
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
  }
  cache.options.bytes = options.SerializeAsString();
  return cache;
}

std::string RandomSession::Output() {
  v1::OutputOptions output;
  for (uint32_t i = Below(3); i > 0; --i) output.add_stop(Text());
  output.set_ignore_eos(Below(2) == 0);
  if (Below(2) == 0) output.set_logprobs(Below(5));
  return output.SerializeAsString();
}

SamplingParameters RandomSession::Sampling() {
  SamplingParameters sampling;
  sampling.temperature = Fraction();
  sampling.top_k = Number();
  if (Below(2) == 0) sampling.top_p = Fraction();
  sampling.min_p = Fraction();
  if (Below(2) == 0) sampling.seed = Number64();
  return sampling;
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
  return open;
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
    return opened;
  }
  opened.sequence = SequenceId(Number64());
  opened.lease_epoch = LeaseEpoch(Number());
  opened.cache = Resolved();
  opened.pages = PageLists();
  opened.scores = Scores();
  opened.prompt_scores = Scores();
  return opened;
}

ClaimResult RandomSession::Claimed() {
  ClaimResult claimed;
  claimed.request_tag = Number64();
  if (Below(4) == 0) {
    claimed.status = Failure();
    return claimed;
  }
  claimed.sequence = SequenceId(Number64());
  claimed.lease_epoch = LeaseEpoch(Number());
  claimed.cache = Resolved();
  claimed.sampling = {Fraction(), Number(), Fraction(), Fraction(), Number64()};
  claimed.output = Output();
  claimed.label = Text();
  claimed.max_new_tokens = TokenCount(Number());
  claimed.prompt_tokens = TokenCount(Number());
  claimed.tokens = Tokens();
  claimed.logical_length = TokenCount(Number());
  for (uint32_t layer = 0; layer < num_layers_; ++layer) {
    claimed.layers.push_back({Pages(), {}});
    for (uint32_t i = Below(4); i > 0; --i) {
      claimed.layers.back().positions.push_back({Position(Number()), Position(Number())});
    }
  }
  claimed.evicted_pages = PageCount(Number());
  claimed.scores = Scores();
  claimed.prompt_scores = Scores();
  if (Below(2) == 0) claimed.plan = Drop();
  return claimed;
}

}  // namespace folio::wire
