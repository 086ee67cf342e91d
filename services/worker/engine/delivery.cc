#include "services/worker/engine/delivery.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"

namespace folio::worker {

Delivery::Delivery(const model::Tokenizer* tokenizer, const Submission* submission)
    : tokenizer_(tokenizer), submission_(submission) {}

void Delivery::Start(Started started) {
  admitted_ = SteadyNow();
  text_.emplace(tokenizer_, submission_->request.output.stop);
  submission_->sink->OnEvent(std::move(started));
}

void Delivery::Report(Eviction eviction) { submission_->sink->OnEvent(std::move(eviction)); }

void Delivery::AddProgress(uint32_t done_tokens) {
  // A sequence that was parked computes its prompt again.
  if (done_tokens <= progress_) return;
  progress_ = done_tokens;
  events_.emplace_back(Progress{done_tokens, submission_->request.prompt_tokens()});
}

bool Delivery::Take(const model::SegmentOutput& output, CacheStatsReader cache) {
  const SequenceRequest& request = submission_->request;
  newest_token_ = SteadyNow();
  if (outputs_ == 0) first_token_ = newest_token_;
  ++outputs_;

  FinishReason reason = EndOf(output.token);
  std::optional<TokenId> stop_token;
  TextStream::Piece piece;
  if (reason != FinishReason::kUnspecified) {
    stop_token = output.token;
  } else if (!request.scoring()) {
    piece = text_->Feed(output.token, /*may_stop=*/outputs_ >= request.output.min_tokens);
  }
  held_.text += piece.text;
  // The characters of the tokens before this one are whole, although this one's are not.
  if (!piece.whole && !piece.text.empty() && !held_.tokens.empty()) AddChunk();
  HoldToken(output);
  if (piece.stop) {
    reason = FinishReason::kStop;
  } else if (reason == FinishReason::kUnspecified && outputs_ == request.max_new_tokens) {
    reason = FinishReason::kLength;
  }
  if (reason == FinishReason::kUnspecified) {
    if (piece.whole) AddChunk();
    return false;
  }
  if (!piece.stop && !request.scoring()) {
    piece = text_->Finish();
    held_.text += piece.text;
    if (piece.stop) {
      reason = FinishReason::kStop;
      stop_token.reset();
    }
  }
  AddChunk();
  AddFinished(reason, piece.stop.value_or(""), stop_token, cache);
  return true;
}

void Delivery::HoldToken(const model::SegmentOutput& output) {
  held_.tokens.push_back(output.token);
  if (!submission_->request.output.logprobs.has_value()) return;
  TokenLogprob& logprob = held_.logprobs.emplace_back();
  logprob.token = output.token;
  logprob.logprob = output.logprob;
  const auto bytes_of = [this](TokenId token) {
    return tokenizer_->TokenBytes(token).value_or(std::string());
  };
  logprob.bytes = bytes_of(output.token);
  logprob.top.reserve(output.top.size());
  for (const auto& [token, value] : output.top) {
    logprob.top.push_back({token, value, bytes_of(token)});
  }
}

void Delivery::AddChunk() {
  TokenChunk chunk = std::exchange(held_, {});
  const auto received = static_cast<uint32_t>(submission_->request.received().size());
  const auto tokens = static_cast<uint32_t>(chunk.tokens.size());
  const uint32_t known = std::min(tokens, received - std::min(received, added_));
  added_ += tokens;
  if (known == tokens) return;  // the client has all of it
  if (known > 0) {
    chunk.tokens.erase(chunk.tokens.begin(), chunk.tokens.begin() + known);
    const size_t logprobs = std::min<size_t>(chunk.logprobs.size(), known);
    chunk.logprobs.erase(chunk.logprobs.begin(),
                         chunk.logprobs.begin() + static_cast<ptrdiff_t>(logprobs));
  }
  events_.emplace_back(std::move(chunk));
}

FinishReason Delivery::EndOf(TokenId token) const {
  const SequenceRequest& request = submission_->request;
  if (request.scoring() || outputs_ < request.output.min_tokens) return FinishReason::kUnspecified;
  if (!request.output.ignore_eos && tokenizer_->IsEos(token)) return FinishReason::kEos;
  const std::vector<TokenId>& stops = request.output.stop_tokens;
  const bool stop = std::find(stops.begin(), stops.end(), token) != stops.end();
  return stop ? FinishReason::kStop : FinishReason::kUnspecified;
}

void Delivery::AddFinished(FinishReason reason, std::string stop, std::optional<TokenId> stop_token,
                           CacheStatsReader cache) {
  const SteadyTime arrival = submission_->request.arrival;
  const Usage usage = {.prompt_tokens = submission_->request.prompt_tokens(),
                       .generated_tokens = outputs_,
                       .queue_seconds = absl::ToDoubleSeconds(admitted_ - arrival),
                       .prefill_seconds = absl::ToDoubleSeconds(first_token_ - admitted_),
                       .time_to_first_token = absl::ToDoubleSeconds(first_token_ - arrival),
                       .decode_seconds = absl::ToDoubleSeconds(newest_token_ - first_token_)};
  events_.emplace_back(Finished{reason, std::move(stop), stop_token, usage, cache()});
  finished_ = true;
}

void Delivery::Send() {
  for (Event& event : events_) submission_->sink->OnEvent(std::move(event));
  events_.clear();
}

bool Delivery::Replay(const std::vector<TokenId>& tokens, CacheStatsReader cache) {
  for (const TokenId token : tokens) {
    model::SegmentOutput output;
    output.token = token;
    output.logprob = std::numeric_limits<float>::quiet_NaN();
    if (Take(output, cache)) break;
  }
  Send();
  return finished_;
}

}  // namespace folio::worker
