// ScoreMerges derives the merges of a BPE model from the scores of its pieces, which is all that a
// vocabulary of SentencePiece has. It is pure, and internal to TokenizerFromGguf.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_SCORE_MERGES_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_SCORE_MERGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/model/tokenizer/gguf_tokenizer.h"
#include "services/model/tokenizer/gguf_vocabulary.h"

namespace folio::model {

// Each way to cut a piece into two others, that of the piece with the highest score first. Only
// normal pieces and those that users defined take part, since no text becomes another token by
// merges. INVALID_ARGUMENT when these ways take far more memory than those of a trained vocabulary.
absl::StatusOr<std::vector<TokenPair>> ScoreMerges(const GgufTokenizer& gguf, const GgufIds& ids);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_SCORE_MERGES_H_
