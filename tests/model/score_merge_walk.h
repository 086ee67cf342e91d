// ScoreMergeWalk joins pieces as SentencePiece does, without any optimisation: it searches the
// whole text for the pair whose piece has the best score, joins it, and begins again.
#ifndef FOLIO_TESTS_MODEL_SCORE_MERGE_WALK_H_
#define FOLIO_TESTS_MODEL_SCORE_MERGE_WALK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "services/model/tokenizer/gguf_tokenizer.h"

namespace folio::model {

// For texts all of whose characters are pieces.
class ScoreMergeWalk {
 public:
  explicit ScoreMergeWalk(const GgufTokenizer& gguf) {
    for (uint32_t id = 0; id < gguf.tokens.size(); ++id) {
      if (gguf.token_types[id] == 1) pieces_[gguf.tokens[id]] = {id, gguf.scores[id]};
    }
  }

  // Spaces are U+2581 in `text`.
  std::vector<uint32_t> Ids(const std::string& text) const {
    std::vector<std::string> parts;
    for (const char byte : text) {
      if ((static_cast<uint8_t>(byte) & 0xC0) != 0x80) parts.emplace_back();
      parts.back() += byte;
    }
    while (JoinBest(parts)) continue;
    std::vector<uint32_t> ids;
    for (const std::string& part : parts) ids.push_back(pieces_.at(part).id);
    return ids;
  }

 private:
  struct Piece {
    uint32_t id;
    float score;
  };

  bool JoinBest(std::vector<std::string>& parts) const {
    const Piece* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = pieces_.find(parts[i] + parts[i + 1]);
      if (found == pieces_.end()) continue;
      if (best != nullptr && found->second.score <= best->score) continue;
      best = &found->second;
      place = i;
    }
    if (best == nullptr) return false;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    return true;
  }

  std::map<std::string, Piece> pieces_;
};

}  // namespace folio::model

#endif  // FOLIO_TESTS_MODEL_SCORE_MERGE_WALK_H_
