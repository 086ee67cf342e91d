#include "services/model/tokenizer/gguf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "services/text/utf8.h"

namespace folio::model {
namespace {

using Json = nlohmann::json;
using Ids = absl::flat_hash_map<absl::string_view, uint32_t>;

enum TokenType : int32_t { kControl = 3, kUserDefined = 4 };

// How text is cut into words before the merges, and the defaults that go with that name.
struct PreTokenizer {
  absl::string_view name;
  enum Cut { kGpt2, kDigitsThenGpt2, kLlama3, kQwen2 } cut;
  bool ignore_merges;  // a word that is a token is taken whole
  bool add_bos;        // when the file does not say
};

constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", PreTokenizer::kGpt2, false, false},
    {"default", PreTokenizer::kGpt2, false, false},
    {"smollm", PreTokenizer::kDigitsThenGpt2, false, false},
    {"llama-bpe", PreTokenizer::kLlama3, true, true},
    {"llama3", PreTokenizer::kLlama3, true, true},
    {"llama-v3", PreTokenizer::kLlama3, true, true},
    {"qwen2", PreTokenizer::kQwen2, false, false},
};

absl::StatusOr<PreTokenizer> FindPreTokenizer(const std::string& name) {
  std::vector<absl::string_view> known;
  for (const PreTokenizer& pre : kPreTokenizers) {
    if (pre.name == name) return pre;
    known.push_back(pre.name);
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.pre: pre-tokenizer '", name,
                                               "' is not supported; known are ",
                                               absl::StrJoin(known, ", ")));
}

Json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json Sequence(Json first, Json second) {
  return {{"type", "Sequence"},
          {"pretokenizers", Json::array({std::move(first), std::move(second)})}};
}

// Contractions, words, numbers of at most `digits` digits, punctuation, line ends, blanks.
Json LlamaStyle(absl::string_view digits) {
  const std::string pattern =
      absl::StrCat(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)", digits,
                   R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  Json split = {{"type", "Split"},
                {"pattern", {{"Regex", pattern}}},
                {"behavior", "Isolated"},
                {"invert", false}};
  return Sequence(std::move(split), ByteLevel(false));
}

Json PreTokenizerJson(PreTokenizer::Cut cut) {
  switch (cut) {
    case PreTokenizer::kGpt2:
      return ByteLevel(true);
    case PreTokenizer::kDigitsThenGpt2:
      return Sequence({{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(true));
    case PreTokenizer::kLlama3:
      return LlamaStyle(R"(\p{N}{1,3})");
    case PreTokenizer::kQwen2:
      return LlamaStyle(R"(\p{N})");
  }
  return nullptr;
}

absl::StatusOr<Ids> IndexTokens(const GgufTokenizer& gguf) {
  if (gguf.tokens.empty()) {
    return absl::InvalidArgumentError("tokenizer.ggml.tokens is missing or empty");
  }
  if (!gguf.token_types.empty() && gguf.token_types.size() != gguf.tokens.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.ggml.token_type has ", gguf.token_types.size(),
                     " entries, tokenizer.ggml.tokens has ", gguf.tokens.size()));
  }
  Ids ids;
  ids.reserve(gguf.tokens.size());
  for (uint32_t id = 0; id < gguf.tokens.size(); ++id) {
    const std::string& token = gguf.tokens[id];
    if (FirstInvalidUtf8(token).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens[", id, "] is not UTF-8"));
    }
    const auto [place, added] = ids.emplace(token, id);
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens[", id, "] is '", token,
                                                     "', as is [", place->second, "]"));
    }
  }
  return ids;
}

// "left right": the blank is searched from the second byte, as a token may be a blank itself.
absl::StatusOr<Json> Merges(const GgufTokenizer& gguf, const Ids& ids) {
  Json merges = Json::array();
  for (size_t i = 0; i < gguf.merges.size(); ++i) {
    const absl::string_view merge = gguf.merges[i];
    const size_t blank = merge.find(' ', 1);
    if (blank == absl::string_view::npos || blank + 1 == merge.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.merges[", i, "] is not two tokens with a blank between"));
    }
    const absl::string_view left = merge.substr(0, blank);
    const absl::string_view right = merge.substr(blank + 1);
    for (const std::string& part :
         {std::string(left), std::string(right), absl::StrCat(left, right)}) {
      if (!ids.contains(part)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tokenizer.ggml.merges[", i, "] needs a token that tokenizer.ggml.tokens lacks"));
      }
    }
    merges.push_back(Json::array({std::string(left), std::string(right)}));
  }
  return merges;
}

Json AddedTokens(const GgufTokenizer& gguf) {
  Json added = Json::array();
  for (uint32_t id = 0; id < gguf.token_types.size(); ++id) {
    const int32_t type = gguf.token_types[id];
    // An empty one would be found everywhere.
    if ((type != kControl && type != kUserDefined) || gguf.tokens[id].empty()) continue;
    added.push_back({{"id", id},
                     {"content", gguf.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type == kControl}});
  }
  return added;
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

// The ids that end a generation are those that the file names and the ends of a turn in the two
// usual chat formats.
std::vector<uint32_t> EosIds(const GgufTokenizer& gguf, const Ids& ids) {
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
  for (const absl::string_view name : {"<|im_end|>", "<|eot_id|>"}) {
    const auto found = ids.find(name);
    if (found != ids.end()) add(found->second);
  }
  return eos;
}

}  // namespace

absl::StatusOr<TokenizerSpec> TokenizerFromGguf(const GgufTokenizer& gguf) {
  if (gguf.model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.model: tokenizer '", gguf.model,
                                                 "' is not supported; known is gpt2"));
  }
  const absl::StatusOr<PreTokenizer> pre = FindPreTokenizer(gguf.pre);
  if (!pre.ok()) return pre.status();
  const absl::StatusOr<Ids> ids = IndexTokens(gguf);
  if (!ids.ok()) return ids.status();
  absl::StatusOr<Json> merges = Merges(gguf, *ids);
  if (!merges.ok()) return merges.status();
  absl::StatusOr<std::string> bos = TextOf(gguf, gguf.bos_id, "bos_token_id");
  if (!bos.ok()) return bos.status();
  absl::StatusOr<std::string> eos = TextOf(gguf, gguf.eos_id, "eos_token_id");
  if (!eos.ok()) return eos.status();
  if (const auto eot = TextOf(gguf, gguf.eot_id, "eot_token_id"); !eot.ok()) return eot.status();
  if (FirstInvalidUtf8(gguf.chat_template).has_value()) {
    return absl::InvalidArgumentError("tokenizer.chat_template is not UTF-8");
  }

  TokenizerSpec spec;
  spec.add_bos = gguf.add_bos.value_or(pre->add_bos);
  if (spec.add_bos && !gguf.bos_id.has_value()) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.add_bos_token holds, but tokenizer.ggml.bos_token_id is missing");
  }
  spec.bos_id = gguf.bos_id.value_or(0);
  spec.bos_token = *std::move(bos);
  spec.eos_token = *std::move(eos);
  spec.eos_ids = EosIds(gguf, *ids);
  spec.chat_template = gguf.chat_template;

  Json vocab = Json::object();
  for (uint32_t id = 0; id < gguf.tokens.size(); ++id) vocab[gguf.tokens[id]] = id;
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", pre->ignore_merges}};
  model["vocab"] = std::move(vocab);
  model["merges"] = *std::move(merges);
  Json normalizer;  // Qwen 2 composes characters first
  if (pre->cut == PreTokenizer::kQwen2) normalizer = {{"type", "NFC"}};
  Json document = {{"version", "1.0"},
                   {"truncation", nullptr},
                   {"padding", nullptr},
                   {"normalizer", std::move(normalizer)},
                   {"pre_tokenizer", PreTokenizerJson(pre->cut)},
                   {"post_processor", nullptr},
                   {"decoder", ByteLevel(true)}};
  document["added_tokens"] = AddedTokens(gguf);
  document["model"] = std::move(model);
  spec.tokenizer_json = document.dump();
  return spec;
}

}  // namespace folio::model
