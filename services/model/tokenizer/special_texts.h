// SpecialTexts finds the texts of special tokens in the messages of a chat. A mark in each of them
// survives the template and says where the rendered text is cut, so that the tokenizer does not
// recognise the token. Marks are single characters of Unicode's private use.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_SPECIAL_TEXTS_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_SPECIAL_TEXTS_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio::model {

// Immutable and thread-safe. Texts are UTF-8.
class SpecialTexts {
 public:
  // Tokens of one character are left out, because nothing can be put inside them.
  explicit SpecialTexts(absl::Span<const std::string> texts);

  // Whether `text` contains one.
  bool In(absl::string_view text) const;
  // `text` with `mark` after the first character of each one, also of those that overlap.
  std::string Marked(absl::string_view text, absl::string_view mark) const;

 private:
  bool StartsAt(absl::string_view text, size_t offset) const;

  std::array<std::vector<std::string>, 256> by_first_byte_;
};

// A mark that none of the texts contains. Nothing if they contain all 6,400 of them.
std::optional<std::string> UnusedMark(absl::Span<const absl::string_view> texts);

// Takes the marks out of `text`, and returns where they were.
std::vector<size_t> RemoveMarks(absl::string_view mark, std::string& text);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_SPECIAL_TEXTS_H_
