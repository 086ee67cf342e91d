// Engine: going on with a sequence that another worker left.
//
// What that worker committed is taken as it is: tables, lengths and positions from the manager's
// record, K, V and scores from the pages. Tokens behind it are computed again, into the places that
// they had. Tokens of the record that the client did not get are sent from it.
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/engine.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

using Tables = std::vector<std::vector<PageRef>>;
using Positions = std::vector<std::vector<model::PositionRun>>;

absl::Status Unfit(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the manager's record does not fit: ", what));
}

// What the client and the operator chose, from the record into the request.
absl::Status TakeRequest(const v1::ClaimResult& record, SequenceRequest* request,
                         std::vector<TokenId>* sampled) {
  const auto tokens = static_cast<uint32_t>(record.tokens_size());
  const uint32_t prompt = record.prompt_tokens();
  if (prompt == 0 || prompt > tokens || record.logical_length() > tokens)
    return Unfit("its tokens");
  for (uint32_t i = 0; i < tokens; ++i) {
    (i < prompt ? request->prompt : *sampled).emplace_back(record.tokens(static_cast<int>(i)));
  }
  // A step gives the next token with what it writes.
  const uint32_t known = record.logical_length() < prompt ? prompt : record.logical_length() + 1;
  if (tokens != known) return Unfit("the next token is not known");
  request->max_new_tokens = record.max_new_tokens();
  request->cache = record.cache();
  request->sampling = record.sampling();
  request->label = record.label();
  request->stop.assign(record.output().stop().begin(), record.output().stop().end());
  request->ignore_eos = record.output().ignore_eos();
  request->top_logprobs =
      record.output().has_logprobs() ? static_cast<int>(record.output().logprobs()) : -1;
  return absl::OkStatus();
}

absl::Status CheckReceived(const std::vector<TokenId>& received,
                           const std::vector<TokenId>& sampled, uint32_t max_new_tokens) {
  if (received.size() > max_new_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("resume.received_tokens has ", received.size(),
                                                   " tokens, more than the sequence's max_tokens ",
                                                   max_new_tokens));
  }
  for (size_t i = 0; i < std::min(received.size(), sampled.size()); ++i) {
    if (received[i] == sampled[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "resume.received_tokens[", i, "] is ", received[i].value(), ", the sequence has ",
        sampled[i].value(), " there: give the tokens of all its chunks in order"));
  }
  return absl::OkStatus();
}

bool ReadLayer(const v1::ClaimResult::Layer& layer, uint32_t num_pages, uint32_t length,
               std::vector<PageRef>* pages, std::vector<model::PositionRun>* runs) {
  const v1::LayerPages& from = layer.pages();
  if (from.pages_size() != from.generations_size() || layer.runs_size() % 2 != 0) return false;
  for (int i = 0; i < from.pages_size(); ++i) {
    if (from.pages(i) >= num_pages) return false;
    pages->push_back({PageId(from.pages(i)), Generation(from.generations(i))});
  }
  uint32_t end = 0;
  for (int i = 0; i < layer.runs_size(); i += 2) {
    if (layer.runs(i) < end || layer.runs(i) >= layer.runs(i + 1)) return false;
    end = layer.runs(i + 1);
    runs->push_back({Position(layer.runs(i)), Position(end)});
  }
  return end <= length;
}

}  // namespace

absl::Status Engine::Restore(Sequence* sequence, const v1::ClaimResult& record) {
  const CacheGeometry& geometry = options_.geometry;
  if (record.layers_size() != static_cast<int>(geometry.num_layers)) return Unfit("its layers");
  Tables pages(geometry.num_layers);
  Positions positions(geometry.num_layers);
  CacheLedger& ledger = sequence->ledger;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    if (!ReadLayer(record.layers(static_cast<int>(layer)), options_.num_pages,
                   record.logical_length(), &pages[layer], &positions[layer])) {
      return Unfit(absl::StrCat("the table of layer ", layer));
    }
    for (const model::PositionRun& run : positions[layer]) {
      ledger.resident[layer] += (run.end - run.begin).value();
    }
    if (ledger.resident[layer] > uint64_t{geometry.page_tokens} * pages[layer].size()) {
      return Unfit(absl::StrCat("the pages of layer ", layer));
    }
    ledger.AddPages(static_cast<uint32_t>(pages[layer].size()));
  }
  ledger.AddTokens(0);
  ledger.evicted_pages = record.evicted_pages();
  executor_->Restore(sequence->slot, pages, positions);
  sequence->fed = sequence->committed = record.logical_length();
  const bool in_prompt = sequence->fed < sequence->prompt_tokens();
  sequence->phase = in_prompt ? Phase::kPrefill : Phase::kDecode;
  if (in_prompt &&
      executor_->free_tokens(sequence->slot) < sequence->prompt_tokens() - sequence->fed) {
    return Unfit("too few pages for its prompt");
  }
  return absl::OkStatus();
}

void Engine::Replay(Sequence* sequence, const std::vector<TokenId>& sampled) {
  Delivery delivery{sequence, {}, false};
  for (const TokenId token : sampled) {
    if (delivery.done) break;
    model::SegmentOutput output;
    output.slot = sequence->slot;
    output.token = token;
    output.logprob = std::numeric_limits<float>::quiet_NaN();
    TakeOutput(output, &delivery);
  }
  sequence->outputs_enqueued = sequence->outputs;
  std::vector<Delivery> deliveries;
  deliveries.push_back(std::move(delivery));
  Deliver(std::move(deliveries));
}

void Engine::Claimed(const v1::ClaimResult& result) {
  Sequence* sequence = Answered(result);
  if (sequence == nullptr) return;
  SequenceRequest& request = sequence->submission->request;
  std::vector<TokenId> sampled;
  absl::Status taken = TakeRequest(result, &request, &sampled);
  if (taken.ok()) {
    taken = CheckReceived(request.resume->received, sampled, request.max_new_tokens);
  }
  if (!taken.ok()) return End(sequence, v1::CLOSE_REASON_ERROR, taken);
  sequence->text = TextStream(tokenizer_, request.stop);
  if (!Admit(sequence, result.scores(), result.prompt_scores())) return;
  if (absl::Status restored = Restore(sequence, result); !restored.ok()) {
    return End(sequence, v1::CLOSE_REASON_ERROR, restored);
  }
  sequence->submission->sink->Event(StartedEvent(*sequence));
  Replay(sequence, sampled);
  if (result.has_plan()) Carry(result.plan());
}

}  // namespace folio::worker
