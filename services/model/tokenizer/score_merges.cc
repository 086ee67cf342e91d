#include "services/model/tokenizer/score_merges.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace folio::model {
namespace {

// The texts of all merges together. A trained vocabulary has about two merges for each piece, which
// makes some 5 MB of Gemma's 262,144.
constexpr size_t kMostMergeBytes = 32 << 20;

// A space never reaches the merges, because it is U+2581 by then.
bool TakesPart(const GgufTokenizer& gguf, uint32_t id) {
  const int32_t type = gguf.token_types[id];
  return (type == kNormalToken || type == kUserDefinedToken) &&
         gguf.tokens[id].find(' ') == std::string::npos;
}

bool BeginsCharacter(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

}  // namespace

absl::StatusOr<std::vector<TokenPair>> ScoreMerges(const GgufTokenizer& gguf, const GgufIds& ids) {
  std::vector<uint32_t> pieces;
  for (uint32_t id = 0; id < gguf.tokens.size(); ++id) {
    if (TakesPart(gguf, id)) pieces.push_back(id);
  }
  std::stable_sort(pieces.begin(), pieces.end(), [&gguf](uint32_t left, uint32_t right) {
    return gguf.scores[left] > gguf.scores[right];
  });
  std::vector<TokenPair> merges;
  size_t bytes = 0;
  const auto find = [&](absl::string_view text) {
    const auto found = ids.find(text);
    return found != ids.end() && TakesPart(gguf, found->second) ? &found->second : nullptr;
  };
  for (const uint32_t joined : pieces) {
    const absl::string_view text = gguf.tokens[joined];
    // A run of one character is joined from its left end, so that its longer part is on the left.
    for (size_t cut = text.size(); cut-- > 1;) {
      if (!BeginsCharacter(text[cut])) continue;
      const uint32_t* left = find(text.substr(0, cut));
      if (left == nullptr) continue;
      const uint32_t* right = find(text.substr(cut));
      if (right == nullptr) continue;
      bytes += text.size();
      if (bytes > kMostMergeBytes) {
        return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens: merges of ",
                                                       pieces.size(), " pieces have more than ",
                                                       kMostMergeBytes, " bytes"));
      }
      merges.push_back({*left, *right});
    }
  }
  return merges;
}

}  // namespace folio::model
