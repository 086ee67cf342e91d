#include "services/model/tokenizer/gguf_vocabulary.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/text/utf8.h"

namespace folio::model {
namespace {

using Json = nlohmann::json;

// The crate compares each of them with all others, which takes seconds for so many.
constexpr size_t kMostAddedTokens = 100'000;

bool IsAdded(const GgufTokenizer& gguf, uint32_t id, bool unknown_too) {
  const int32_t type = gguf.token_types[id];
  const bool added =
      type == kControlToken || type == kUserDefinedToken || (type == kUnknownToken && unknown_too);
  // An empty one would be found everywhere.
  return added && !gguf.tokens[id].empty();
}

// `text` is UTF-8.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char byte : text) {
    if (static_cast<uint8_t>(byte) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<uint32_t>(byte));
    } else {
      if (byte == '"' || byte == '\\') quoted += '\\';
      quoted += byte;
    }
  }
  return quoted += '"';
}

// The text of an object without its end.
std::string Opened(const Json& object) {
  std::string text = object.dump();
  text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<GgufIds> IndexTokens(const GgufTokenizer& gguf) {
  if (gguf.tokens.empty()) {
    return absl::InvalidArgumentError("tokenizer.ggml.tokens is missing or empty");
  }
  if (!gguf.token_types.empty() && gguf.token_types.size() != gguf.tokens.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.ggml.token_type has ", gguf.token_types.size(),
                     " entries, tokenizer.ggml.tokens has ", gguf.tokens.size()));
  }
  GgufIds ids;
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

absl::StatusOr<Json> StartDocument(const GgufTokenizer& gguf, bool unknown_is_special) {
  Json added = Json::array();
  for (uint32_t id = 0; id < gguf.token_types.size(); ++id) {
    if (!IsAdded(gguf, id, unknown_is_special)) continue;
    added.push_back({{"id", id},
                     {"content", gguf.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", gguf.token_types[id] != kUserDefinedToken}});
  }
  if (added.size() > kMostAddedTokens) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type has ", added.size(),
                                                   " control and user-defined tokens, more than ",
                                                   kMostAddedTokens));
  }
  Json document = {{"version", "1.0"},         {"truncation", nullptr},    {"padding", nullptr},
                   {"normalizer", nullptr},    {"pre_tokenizer", nullptr}, {"decoder", nullptr},
                   {"post_processor", nullptr}};
  document["added_tokens"] = std::move(added);
  return document;
}

std::string PairDocument(const Json& document, const PairSettings& settings,
                         const GgufTokenizer& gguf, absl::Span<const TokenPair> merges) {
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", settings.fuses_unknown},
                {"byte_fallback", settings.has_bytes},
                {"ignore_merges", settings.ignore_merges}};
  if (settings.unknown.has_value()) model["unk_token"] = gguf.tokens[*settings.unknown];
  std::vector<std::string> quoted;
  quoted.reserve(gguf.tokens.size());
  for (const std::string& token : gguf.tokens) quoted.push_back(Quoted(token));
  std::string text = absl::StrCat(Opened(document), ",\"model\":", Opened(model), ",\"vocab\":");
  char separator = '{';
  for (size_t id = 0; id < quoted.size(); ++id) {
    absl::StrAppend(&text, absl::string_view(&separator, 1), quoted[id], ":", id);
    separator = ',';
  }
  text += "},\"merges\":[";
  for (const TokenPair& pair : merges) {
    absl::StrAppend(&text, "[", quoted[pair.left], ",", quoted[pair.right], "],");
  }
  if (!merges.empty()) text.pop_back();
  return text += "]}}";
}

}  // namespace folio::model
