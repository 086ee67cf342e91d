#include "tests/testing/tiny_vocabulary.h"

#include "services/base/check.h"

namespace folio::testing {
namespace {

using nlohmann::json;

constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr uint32_t kControls = 3;

std::string Utf8(uint32_t code) {  // up to U+07FF
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// Byte-level BPE writes a byte as a printable character: itself where it is one in Latin-1, else
// the next of those from U+0100 on.
std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    alphabet.push_back(Utf8(printable ? byte : next++));
  }
  return alphabet;
}

}  // namespace

std::vector<std::string> TinyMerges() {
  return {"Ġ t",   "h e",  "Ġt he", "i n", "e r", "a n", "Ġ a", "o n", "r e", "n d",  "Ġ s",
          "o r",   "e n",  "Ġ w",   "a t", "o u", "i s", "Ġ o", "Ġ b", "i t", "e s",  "Ġ c",
          "Ġa nd", "Ġo f", "in g",  "l l", "Ġ p", "a r", "Ġ m", "e d", "Ġ f", "Ġ in", "Ġ h",
          "a l",   "Ġt o", "r o",   "Ġ d", "i c", "o m", "l e", "s t"};
}

std::vector<std::string> TinyTokens() {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (std::string& byte : ByteAlphabet()) tokens.push_back(std::move(byte));
  for (const std::string& merge : TinyMerges()) {
    const size_t blank = merge.find(' ');
    tokens.push_back(merge.substr(0, blank) + merge.substr(blank + 1));
  }
  FOLIO_CHECK(tokens.size() == kTinyVocab);
  return tokens;
}

std::vector<int32_t> TinyTokenTypes() {
  std::vector<int32_t> types(kTinyVocab, kNormal);
  for (uint32_t id = 0; id < kControls; ++id) types[id] = kControl;
  return types;
}

const char* TinyChatTemplate() {
  return "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
         "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<|im_start|>assistant\n' }}{% endif %}";
}

json TinyTokenizerJson() {
  const std::vector<std::string> tokens = TinyTokens();
  json vocab = json::object();
  for (uint32_t id = 0; id < tokens.size(); ++id) vocab[tokens[id]] = id;
  json merges = json::array();
  for (const std::string& merge : TinyMerges()) {
    const size_t blank = merge.find(' ');
    merges.push_back({merge.substr(0, blank), merge.substr(blank + 1)});
  }
  json added = json::array();
  for (uint32_t id = 0; id < kControls; ++id) {
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  json document = {{"version", "1.0"},      {"truncation", nullptr},     {"padding", nullptr},
                   {"normalizer", nullptr}, {"post_processor", nullptr}, {"decoder", byte_level}};
  document["added_tokens"] = added;
  document["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", json::array({digits, byte_level})}};
  document["model"] = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocab},
                       {"merges", merges}};
  return document;
}

}  // namespace folio::testing
