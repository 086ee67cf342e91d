#include "services/model/tokenizer/gguf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/tokenizer/gguf_vocabulary.h"
#include "services/model/tokenizer/pre_tokenizers.h"
#include "services/model/tokenizer/sentencepiece.h"
#include "services/text/utf8.h"

namespace folio::model {
namespace {

using Json = nlohmann::json;

// "left right": the blank is searched from the second byte, as a token may be a blank itself.
absl::StatusOr<std::vector<TokenPair>> Merges(const GgufTokenizer& gguf, const GgufIds& ids) {
  std::vector<TokenPair> merges;
  for (size_t i = 0; i < gguf.merges.size(); ++i) {
    const absl::string_view merge = gguf.merges[i];
    const size_t blank = merge.find(' ', 1);
    if (blank == absl::string_view::npos || blank + 1 == merge.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.merges[", i, "] is not two tokens with a blank between"));
    }
    const absl::string_view parts[] = {merge.substr(0, blank), merge.substr(blank + 1)};
    const auto left = ids.find(parts[0]);
    const auto right = ids.find(parts[1]);
    if (left == ids.end() || right == ids.end() ||
        !ids.contains(absl::StrCat(parts[0], parts[1]))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer.ggml.merges[", i, "] needs a token that tokenizer.ggml.tokens lacks"));
    }
    merges.push_back({left->second, right->second});
  }
  return merges;
}

absl::StatusOr<std::string> TextOf(const GgufTokenizer& gguf, std::optional<uint32_t> id,
                                   absl::string_view field) {
  if (!id.has_value()) return std::string();
  if (*id >= gguf.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer.ggml.", field, " is ", *id, ", but there are ", gguf.tokens.size(), " tokens"));
  }
  return gguf.tokens[*id];
}

// The ids that end a generation are those that the file names and the ends of a turn in the usual
// chat formats.
std::vector<uint32_t> EosIds(const GgufTokenizer& gguf, const GgufIds& ids) {
  std::vector<uint32_t> eos;
  const auto add = [&eos](uint32_t id) {
    for (const uint32_t known : eos) {
      if (known == id) return;
    }
    eos.push_back(id);
  };
  if (gguf.eos_id.has_value()) add(*gguf.eos_id);
  if (gguf.eot_id.has_value()) add(*gguf.eot_id);
  if (gguf.chat_template.empty()) return eos;
  for (const absl::string_view name : {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}) {
    const auto found = ids.find(name);
    if (found != ids.end()) add(found->second);
  }
  return eos;
}

absl::StatusOr<std::string> BytePairDocument(const GgufTokenizer& gguf, const GgufIds& ids,
                                             const PreTokenizer& pre) {
  const absl::StatusOr<std::vector<TokenPair>> merges = Merges(gguf, ids);
  if (!merges.ok()) return merges.status();
  absl::StatusOr<Json> document = StartDocument(gguf, /*unknown_is_special=*/false);
  if (!document.ok()) return document.status();
  if (pre.compose) (*document)["normalizer"] = {{"type", "NFC"}};
  (*document)["pre_tokenizer"] = pre.cut();
  (*document)["decoder"] = ByteLevel(true);
  return PairDocument(*document, {.ignore_merges = pre.ignore_merges}, gguf, *merges);
}

// Everything but the tokenizer.json.
absl::StatusOr<TokenizerSpec> Settings(const GgufTokenizer& gguf, const GgufIds& ids,
                                       bool add_bos) {
  absl::StatusOr<std::string> bos = TextOf(gguf, gguf.bos_id, "bos_token_id");
  if (!bos.ok()) return bos.status();
  absl::StatusOr<std::string> eos = TextOf(gguf, gguf.eos_id, "eos_token_id");
  if (!eos.ok()) return eos.status();
  if (const auto eot = TextOf(gguf, gguf.eot_id, "eot_token_id"); !eot.ok()) return eot.status();
  if (FirstInvalidUtf8(gguf.chat_template).has_value()) {
    return absl::InvalidArgumentError("tokenizer.chat_template is not UTF-8");
  }
  if (gguf.add_eos.value_or(false)) {
    return absl::UnimplementedError(
        "tokenizer.ggml.add_eos_token: true is not supported; an answer continues the prompt");
  }
  TokenizerSpec spec;
  spec.add_bos = gguf.add_bos.value_or(add_bos);
  if (spec.add_bos && !gguf.bos_id.has_value()) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.add_bos_token holds, but tokenizer.ggml.bos_token_id is missing");
  }
  spec.bos_id = gguf.bos_id.value_or(0);
  spec.bos_token = *std::move(bos);
  spec.eos_token = *std::move(eos);
  spec.eos_ids = EosIds(gguf, ids);
  spec.chat_template = gguf.chat_template;
  return spec;
}

}  // namespace

absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufTokenizer& gguf) {
  const bool byte_level = gguf.model == "gpt2";
  if (!byte_level && gguf.model != "llama" && gguf.model != "t5") {
    return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.model: tokenizer '", gguf.model,
                                                 "' is not supported; known are gpt2, llama, t5"));
  }
  PreTokenizer pre{};
  if (byte_level) {
    const absl::StatusOr<PreTokenizer> found = FindPreTokenizer(gguf.pre);
    if (!found.ok()) return found.status();
    pre = *found;
  }
  const absl::StatusOr<GgufIds> ids = IndexTokens(gguf);
  if (!ids.ok()) return ids.status();
  absl::StatusOr<TokenizerSpec> spec =
      Settings(gguf, *ids, byte_level ? pre.add_bos : gguf.model == "llama");
  if (!spec.ok()) return spec;
  absl::StatusOr<std::string> document =
      byte_level ? BytePairDocument(gguf, *ids, pre) : SentencePieceDocument(gguf, *ids);
  if (!document.ok()) return document.status();
  spec->tokenizer_json = *std::move(document);
  return spec;
}

}  // namespace folio::model
