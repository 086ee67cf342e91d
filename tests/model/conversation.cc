#include "tests/model/conversation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

using kernels::ScoreKind;

class Speaker {
 public:
  Speaker(Stage& stage, const ModelConfig& config, ScoreKind kind, uint64_t seed,
          LayerRange scored = kAllLayers)
      : stage_(stage),
        layers_(config.num_layers),
        kind_(kind),
        scored_(scored),
        slot_(stage.executor.tables().Acquire(kind)) {
    for (const uint32_t token : RandomTokens(300, config.vocab, seed)) said_.emplace_back(token);
    Extend(5);
  }

  SequenceSlot slot() const { return slot_; }
  ScoreKind kind() const { return kind_; }

  StepSegment Prompt(uint32_t count, bool ends) {
    StepSegment segment = Next(true, ends);
    segment.tokens = {said_.begin() + position_, said_.begin() + position_ + count};
    position_ += count;
    if (ends && kind_ == ScoreKind::kWindowAttention) segment.window = {20, 3, 0};
    if (ends && kind_ == ScoreKind::kUnrotatedDifference) segment.window = {15, 2, 1};
    segment.score_resident = ends && WrittenOnDemand(kind_);
    segment.scored_layers = scored_;
    return segment;
  }
  StepSegment Decode(bool forced, bool refresh) {
    if (stage_.executor.tables().at(slot_).free_tokens() == 0) Extend(1);
    StepSegment segment = Next(false, true);
    if (forced) segment.tokens = {said_[position_]};
    ++position_;
    segment.score_resident = refresh && WrittenOnDemand(kind_);
    segment.scored_layers = scored_;
    return segment;
  }

  void Compact(uint32_t keep) {
    std::vector<std::vector<TokenSlot>> slots(layers_);
    for (uint32_t l = 0; l < layers_; ++l) {
      const bool all = IsWindowed(l);
      const uint32_t tokens = all ? table().resident(LayerIndex(l)) : keep;
      for (uint32_t i = 0; i < tokens; ++i) slots[l].emplace_back(all ? i : l % 2 + 2 * i);
    }
    stage_.executor.Compact(slot_, {slots, std::vector<PageCount>(layers_, PageCount(1))});
  }
  void DropBlocks() {
    std::vector<std::optional<BlockIndex>> blocks;
    for (uint32_t l = 0; l < layers_; ++l) {
      blocks.push_back(IsWindowed(l) ? std::nullopt : std::make_optional(BlockIndex(l % 2)));
    }
    stage_.executor.tables().DropBlocks(slot_, {blocks});
  }
  void Release() { stage_.executor.tables().Release(slot_); }

  void ReadBoard(Transcript& transcript) const {
    for (uint32_t l = 0; l < layers_; ++l) {
      std::vector<float>& to = l == 0 ? transcript.first_layer : transcript.other_layers;
      if (IsWindowed(l) || !scored_.contains(l)) continue;
      const BlockTables::Layer& layer = table().layer(LayerIndex(l));
      for (uint32_t slot = 0; slot < layer.resident; ++slot) {
        for (const uint32_t channel : {0u, 1u}) {
          const float* row = stage_.board.page_scores(layer.pages[slot / 16], channel) +
                             slot % 16 * stage_.board.score_stride();
          to.insert(to.end(), row, row + stage_.board.geometry.num_kv_heads);
        }
      }
    }
  }

 private:
  StepSegment Next(bool prompt, bool wants) const {
    StepSegment segment;
    segment.slot = slot_;
    segment.prompt = prompt;
    segment.first_position = Position(position_);
    segment.want_output = wants;
    segment.top_logprobs = wants ? 0 : -1;
    return segment;
  }
  void Extend(uint32_t count) {
    const auto pages = stage_.pages.Take(count);
    stage_.executor.tables().Extend(slot_, {pages.begin(), pages.begin() + layers_});
  }
  const BlockTables& table() const { return stage_.executor.tables().at(slot_); }
  // A layer with a window loses no token to a policy.
  bool IsWindowed(uint32_t layer) const { return table().geometry().windows.contains(layer); }

  Stage& stage_;
  uint32_t layers_;
  ScoreKind kind_;
  LayerRange scored_;
  std::vector<TokenId> said_;
  SequenceSlot slot_;
  uint32_t position_ = 0;
};

std::string Run(Stage& stage, std::vector<StepSegment> segments, Transcript& transcript) {
  const StepOutput output = stage.executor.Collect(stage.executor.Enqueue({std::move(segments)}));
  for (const SegmentOutput& one : output.outputs) {
    transcript.tokens.push_back(one.token.value());
    transcript.logprobs.push_back(one.logprob);
  }
  return output.status.ok() ? "" : output.status.ToString();
}

}  // namespace

std::string Play(Stage& stage, const ModelConfig& config, bool forced, Transcript& transcript) {
  Speaker a(stage, config, ScoreKind::kNormRatio, 1),
      b(stage, config, ScoreKind::kKeyDifference, 2),
      c(stage, config, ScoreKind::kWindowAttention, 3, {0, 1}),
      d(stage, config, ScoreKind::kUnrotatedDifference, 4, {1, UINT32_MAX});
  std::string wrong = Run(stage, {a.Prompt(30, false), d.Prompt(20, false)}, transcript);
  wrong +=
      Run(stage, {b.Prompt(40, true), a.Prompt(21, true), d.Prompt(28, true), c.Prompt(60, true)},
          transcript);
  for (const Speaker* one : {&a, &b, &c, &d}) one->ReadBoard(transcript);
  a.Compact(20);
  c.Compact(25);
  b.DropBlocks();
  for (uint32_t step = 0; step < 24; ++step) {
    wrong += Run(stage,
                 {d.Decode(forced, true), a.Decode(forced, false), b.Decode(forced, step % 8 == 0),
                  c.Decode(forced, false)},
                 transcript);
    if (step == 12) d.Compact(17);
  }
  for (const Speaker* one : {&a, &b, &c, &d}) one->ReadBoard(transcript);
  // Another one takes the slot, beside one that goes on.
  c.Release();
  Speaker e(stage, config, ScoreKind::kInverseKeyNorm, 5);
  if (e.slot() != c.slot()) return "the slot is not used again";
  wrong += Run(stage, {a.Decode(forced, false), e.Prompt(33, true)}, transcript);
  e.DropBlocks();
  for (uint32_t step = 0; step < 20; ++step) {
    wrong += Run(stage, {e.Decode(forced, false), a.Decode(forced, false)}, transcript);
  }
  for (const Speaker* one : {&a, &e}) one->ReadBoard(transcript);
  return wrong;
}

namespace {

std::string CompareScores(const std::vector<float>& one, const std::vector<float>& other,
                          float relative) {
  if (one.size() != other.size()) return "another number of scores; ";
  size_t unwritten = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    if (std::isnan(one[i]) != std::isnan(other[i]))
      return absl::StrCat("score ", i, " is missing; ");
    unwritten += std::isnan(one[i]);
    // Scores are of the size of 1, shares of attention far less.
    if (std::abs(one[i] - other[i]) > relative * (std::abs(one[i]) + 0.02f)) {
      return absl::StrCat("score ", i, " is ", one[i], " and ", other[i], "; ");
    }
  }
  return 4 * unwritten > 3 * one.size() ? "hardly any scores; " : "";
}

}  // namespace

std::string Compare(const Transcript& one, const Transcript& other, const Nearness& nearness) {
  std::string wrong;
  if (one.tokens.size() != other.tokens.size() || one.tokens.size() < 100) return "other lengths";
  for (size_t i = 0; i < one.logprobs.size(); ++i) {
    if (one.tokens[i] == other.tokens[i] &&
        std::abs(one.logprobs[i] - other.logprobs[i]) <= nearness.logprob) {
      continue;
    }
    absl::StrAppend(&wrong, "output ", i, ": ", one.tokens[i], " at ", one.logprobs[i], " and ",
                    other.tokens[i], " at ", other.logprobs[i], "; ");
    break;
  }
  wrong += CompareScores(one.first_layer, other.first_layer,
                         nearness.exact_first_layer ? 0 : nearness.score);
  wrong += CompareScores(one.other_layers, other.other_layers, nearness.score);
  return wrong;
}

}  // namespace folio::model::testing
