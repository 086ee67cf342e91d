#include "services/model/tokenizer/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/model/tokenizer/charsmap.h"
#include "services/model/tokenizer/score_merges.h"

namespace folio::model {
namespace {

using Json = nlohmann::json;

constexpr char kSpace[] = "\u2581";
constexpr uint32_t kBytes = 256;

// Code that walks a piece calls itself for each byte, and looks at each part of it.
constexpr size_t kMostPieceBytes = 1024;

absl::Status CheckPieces(const GgufTokenizer& gguf) {
  const size_t size = gguf.tokens.size();
  if (gguf.token_types.empty()) {
    return absl::InvalidArgumentError("tokenizer.ggml.token_type is missing or empty");
  }
  if (gguf.scores.size() != size) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.scores has ", gguf.scores.size(),
                                                   " entries, tokenizer.ggml.tokens has ", size));
  }
  for (size_t id = 0; id < size; ++id) {
    if (!std::isfinite(gguf.scores[id])) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.scores[", id, "] is not a finite number"));
    }
    if (gguf.tokens[id].size() > kMostPieceBytes) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens[", id, "] has ",
                                                     gguf.tokens[id].size(), " bytes, more than ",
                                                     kMostPieceBytes));
    }
  }
  return absl::OkStatus();
}

// Whether the vocabulary has a token for each byte. INVALID_ARGUMENT when it has some of them.
absl::StatusOr<bool> HasBytes(const GgufTokenizer& gguf, const GgufIds& ids) {
  const auto count = std::count(gguf.token_types.begin(), gguf.token_types.end(), kByteToken);
  if (count == 0) return false;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    const std::string text = absl::StrFormat("<0x%02X>", byte);
    const auto found = ids.find(text);
    if (found == ids.end() || gguf.token_types[found->second] != kByteToken) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens lacks the byte token ", text));
    }
  }
  if (count == kBytes) return true;
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.ggml.token_type has ", count, " byte tokens, more than ", kBytes));
}

// The unknown token, which the file names or has the type of.
absl::StatusOr<std::optional<uint32_t>> UnknownId(const GgufTokenizer& gguf) {
  if (gguf.unknown_id.has_value()) {
    if (*gguf.unknown_id < gguf.tokens.size()) return gguf.unknown_id;
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.unknown_token_id is ",
                                                   *gguf.unknown_id, ", but there are ",
                                                   gguf.tokens.size(), " tokens"));
  }
  const auto begin = gguf.token_types.begin();
  const auto found = std::find(begin, gguf.token_types.end(), kUnknownToken);
  if (found == gguf.token_types.end()) return std::optional<uint32_t>();
  return static_cast<uint32_t>(found - begin);
}

Json Replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

absl::StatusOr<Json> Normalizer(const GgufTokenizer& gguf) {
  Json steps = Json::array();
  if (!gguf.charsmap.empty()) {
    if (!IsCharsmap(gguf.charsmap)) {
      return absl::InvalidArgumentError(
          "tokenizer.ggml.precompiled_charsmap is not a table of characters");
    }
    steps.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", absl::Base64Escape(gguf.charsmap)}});
  }
  if (gguf.remove_extra_spaces.value_or(false)) {
    steps.push_back(Replace("Regex", "\\A +|[ \u2581]+\\z", ""));
    steps.push_back(Replace("Regex", " {2,}", " "));
  }
  if (gguf.add_space_prefix.value_or(true)) {
    steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  }
  steps.push_back(Replace("String", " ", kSpace));
  return Json{{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

Json Decoder(const GgufTokenizer& gguf, bool bytes) {
  Json steps = Json::array({Replace("String", kSpace, " ")});
  if (bytes) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (gguf.add_space_prefix.value_or(true)) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// The crate searches tokens of all types. Control tokens are cut out before, but the six characters
// of a byte's token are text where they are written, and the score here makes them so.
float ByteScore(const GgufTokenizer& gguf) {
  float lowest = -1;
  for (size_t id = 0; id < gguf.tokens.size(); ++id) {
    if (gguf.token_types[id] == kNormalToken) lowest = std::min(lowest, gguf.scores[id]);
  }
  constexpr float kCharacters = 6;
  return lowest * (kCharacters + 1);
}

absl::StatusOr<Json> UnigramModel(const GgufTokenizer& gguf, std::optional<uint32_t> unknown,
                                  bool bytes) {
  if (!unknown.has_value()) {
    return absl::InvalidArgumentError("tokenizer.ggml.unknown_token_id is missing");
  }
  const double byte_score = ByteScore(gguf);
  Json vocab = Json::array();
  for (size_t id = 0; id < gguf.tokens.size(); ++id) {
    const double score = gguf.token_types[id] == kByteToken ? byte_score : gguf.scores[id];
    vocab.push_back(Json::array({gguf.tokens[id], score}));
  }
  return Json{{"type", "Unigram"},
              {"unk_id", *unknown},
              {"byte_fallback", bytes},
              {"vocab", std::move(vocab)}};
}

}  // namespace

absl::StatusOr<std::string> SentencePieceDocument(const GgufTokenizer& gguf, const GgufIds& ids) {
  if (absl::Status pieces = CheckPieces(gguf); !pieces.ok()) return pieces;
  const absl::StatusOr<bool> bytes = HasBytes(gguf, ids);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<std::optional<uint32_t>> unknown = UnknownId(gguf);
  if (!unknown.ok()) return unknown.status();
  if (!*bytes && !unknown->has_value()) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.tokens has neither byte tokens nor an unknown token");
  }
  absl::StatusOr<Json> normalizer = Normalizer(gguf);
  if (!normalizer.ok()) return normalizer.status();
  absl::StatusOr<Json> document = StartDocument(gguf, /*unknown_is_special=*/true);
  if (!document.ok()) return document.status();
  (*document)["normalizer"] = *std::move(normalizer);
  (*document)["decoder"] = Decoder(gguf, *bytes);
  if (gguf.model == "llama") {
    const absl::StatusOr<std::vector<TokenPair>> merges = ScoreMerges(gguf, ids);
    if (!merges.ok()) return merges.status();
    const PairSettings settings = {.unknown = *unknown, .fuses_unknown = true, .has_bytes = *bytes};
    return PairDocument(*document, settings, gguf, *merges);
  }
  absl::StatusOr<Json> model = UnigramModel(gguf, *unknown, *bytes);
  if (!model.ok()) return model.status();
  (*document)["model"] = *std::move(model);
  return document->dump();
}

}  // namespace folio::model
