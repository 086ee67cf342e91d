#include "services/worker/engine/text_stream.h"

#include <utility>

namespace folio::worker {

TextStream::TextStream(const model::Tokenizer* tokenizer, std::vector<std::string> stop)
    : tokenizer_(tokenizer), stops_(std::move(stop)), matcher_(stops_) {}

TextStream::Piece TextStream::Feed(TokenId token, bool may_stop) {
  if (tokenizer_->IsSpecial(token)) return Match(utf8_.Flush(), may_stop);
  const absl::StatusOr<std::string> bytes = tokenizer_->TokenBytes(token);
  return Match(bytes.ok() ? utf8_.Feed(*bytes) : std::string(), may_stop);
}

TextStream::Piece TextStream::Finish() {
  Piece piece = Match(utf8_.Flush());
  if (!piece.stop) piece.text += matcher_.Flush();
  return piece;
}

TextStream::Piece TextStream::Match(std::string text, bool may_stop) {
  if (!may_stop) return {std::move(text), !utf8_.pending(), std::nullopt};
  StopMatcher::Found found = matcher_.Feed(text);
  Piece piece{std::move(found.text), !utf8_.pending(), std::nullopt};
  if (found.stop) piece.stop = stops_[*found.stop];
  return piece;
}

}  // namespace folio::worker
