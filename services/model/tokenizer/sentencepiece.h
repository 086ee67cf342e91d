// SentencePieceDocument writes a vocabulary of SentencePiece in a GGUF file down as the text of the
// tokenizer.json that gives the same ids. It is pure, and internal to TokenizerFromGguf.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_SENTENCEPIECE_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_SENTENCEPIECE_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/model/tokenizer/gguf_tokenizer.h"
#include "services/model/tokenizer/gguf_vocabulary.h"

namespace folio::model {

// For the models "llama", whose pieces are joined from characters, the best score first, and "t5",
// for which the pieces with the best sum of scores are searched. A character without a piece
// becomes its bytes if the vocabulary has the 256 tokens for them, else the unknown token.
// INVALID_ARGUMENT names the field that is damaged.
absl::StatusOr<std::string> SentencePieceDocument(const GgufTokenizer& gguf, const GgufIds& ids);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_SENTENCEPIECE_H_
