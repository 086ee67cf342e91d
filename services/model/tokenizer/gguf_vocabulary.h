// GgufIds maps the texts of a GGUF file's tokens to their ids. The functions here check the tokens
// and write down what every kind of tokenizer.json has. They are pure, and internal to
// TokenizerFromGguf.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_VOCABULARY_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_VOCABULARY_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/model/tokenizer/gguf_tokenizer.h"

namespace folio::model {

// The values of tokenizer.ggml.token_type.
enum GgufTokenType : int32_t {
  kNormalToken = 1,
  kUnknownToken = 2,
  kControlToken = 3,
  kUserDefinedToken = 4,
  kUnusedToken = 5,
  kByteToken = 6,
};

// Borrows the texts.
using GgufIds = absl::flat_hash_map<absl::string_view, uint32_t>;

// INVALID_ARGUMENT names the token that is not UTF-8 or appears twice.
absl::StatusOr<GgufIds> IndexTokens(const GgufTokenizer& gguf);

// A tokenizer.json without a model. It has the tokens that are found in a text before anything
// else, which are the control tokens and those that users defined. Control tokens are special, and
// with `unknown_is_special` the unknown token is one too. INVALID_ARGUMENT when there are too many.
absl::StatusOr<nlohmann::json> StartDocument(const GgufTokenizer& gguf, bool unknown_is_special);

// Two tokens by their ids, which make another one when they are joined.
struct TokenPair {
  uint32_t left, right;
};

// How BPE models differ, apart from their vocabularies and merges.
struct PairSettings {
  std::optional<uint32_t> unknown = std::nullopt;  // the token of a text that no token stands for
  bool fuses_unknown = false;                      // such texts side by side are one token
  bool has_bytes = false;      // there are tokens of bytes, which stand for such a text
  bool ignore_merges = false;  // a word that is a token is that one
};

// The text of `document` with a BPE model. A JSON object of a large vocabulary would take most of
// the time that a file takes to open.
std::string PairDocument(const nlohmann::json& document, const PairSettings& settings,
                         const GgufTokenizer& gguf, absl::Span<const TokenPair> merges);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_GGUF_VOCABULARY_H_
