#include "services/worker/engine/text_stream.h"

#include <utility>

namespace folio::worker {

TextStream::TextStream(const model::Tokenizer* tokenizer, std::vector<std::string> stop)
    : tokenizer_(tokenizer), stops_(std::move(stop)), matcher_(stops_) {}

TextStream::Piece TextStream::Feed(TokenId token) {
  if (tokenizer_->IsSpecial(token)) return Match(utf8_.Flush());
  const absl::StatusOr<std::string> bytes = tokenizer_->TokenBytes(token);
  return Match(bytes.ok() ? utf8_.Feed(*bytes) : std::string());
}

TextStream::Piece TextStream::Finish() {
  Piece piece = Match(utf8_.Flush());
  if (!piece.stop) piece.text += matcher_.Flush();
  return piece;
}

TextStream::Piece TextStream::Match(const std::string& text) {
  StopMatcher::Found found = matcher_.Feed(text);
  Piece piece{std::move(found.text), !utf8_.pending(), std::nullopt};
  if (found.stop) piece.stop = stops_[*found.stop];
  return piece;
}

}  // namespace folio::worker
