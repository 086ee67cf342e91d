// A generated sequence's text as it grows: token bytes to whole UTF-8 characters, and the search
// for stop strings. Text that may be the beginning of a stop string is held back until it is clear.
#ifndef FOLIO_SERVICES_WORKER_TEXT_STREAM_H_
#define FOLIO_SERVICES_WORKER_TEXT_STREAM_H_

#include <optional>
#include <string>
#include <vector>

#include "services/common/ids.h"
#include "services/common/stop_matcher.h"
#include "services/common/utf8.h"
#include "services/model/tokenizer.h"

namespace folio::worker {

// Thread-compatible. The tokenizer is borrowed.
class TextStream {
 public:
  TextStream(const model::Tokenizer* tokenizer, std::vector<std::string> stop);

  struct Piece {
    std::string text;                 // ready to be shown
    bool whole = true;                // false: the token ended inside a character
    std::optional<std::string> stop;  // this stop string came; the text ends before it
  };

  // Special tokens give no text; they end a character.
  Piece Feed(TokenId token);
  // The end: what was held back. Bytes of an unfinished character become U+FFFD.
  Piece Finish();

 private:
  Piece Match(const std::string& text);

  const model::Tokenizer* tokenizer_;
  std::vector<std::string> stops_;
  Utf8Assembler utf8_;
  StopMatcher matcher_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_TEXT_STREAM_H_
