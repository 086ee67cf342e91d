// TextStream turns the tokens of one sequence into text as they come. It joins token bytes to whole
// UTF-8 characters and searches for stop strings. Text that may be the beginning of a stop string
// is held back until more text has come.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_TEXT_STREAM_H_
#define FOLIO_SERVICES_WORKER_ENGINE_TEXT_STREAM_H_

#include <optional>
#include <string>
#include <vector>

#include "services/base/ids.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/text/stop_matcher.h"
#include "services/text/utf8.h"

namespace folio::worker {

// Thread-compatible. The tokenizer is borrowed.
class TextStream {
 public:
  TextStream(const model::Tokenizer* tokenizer, std::vector<std::string> stop);

  struct Piece {
    std::string text;                 // ready to be shown
    bool whole = true;                // false if the token ended inside a character
    std::optional<std::string> stop;  // the stop string that was found; the text ends before it
  };

  // Special tokens have no text, and end a character that is not complete. Without `may_stop` no
  // stop string is looked for in the token's text, nor one that begins in it.
  Piece Feed(TokenId token, bool may_stop = true);
  // Ends the text and returns what was held back. Bytes of an unfinished character become U+FFFD.
  Piece Finish();

 private:
  Piece Match(std::string text, bool may_stop = true);

  const model::Tokenizer* tokenizer_;
  std::vector<std::string> stops_;
  Utf8Assembler utf8_;
  StopMatcher matcher_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_TEXT_STREAM_H_
