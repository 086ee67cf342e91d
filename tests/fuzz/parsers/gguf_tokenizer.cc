#include "services/model/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/fuzz/parsers/byte_source.h"
#include "tests/fuzz/parsers/encode_text.h"

// The tables of a tokenizer in a GGUF file. Four bytes are its settings. Lines follow: tokens, each
// with its type in front, and for SentencePiece's models its score, up to an empty line, merges up
// to another one, and a text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr struct {
    const char* model;
    const char* pre;
  } kKinds[] = {{"gpt2", "gpt-2"},  {"gpt2", "default"}, {"gpt2", "smollm"}, {"gpt2", "llama-bpe"},
                {"gpt2", "qwen2"},  {"gpt2", "other"},   {"llama", ""},      {"t5", ""},
                {"gpt2", "tekken"}, {"gpt2", "gpt-4o"}};
  folio::fuzz::ByteSource input({reinterpret_cast<const char*>(data), size});
  folio::model::GgufTokenizer gguf;
  const auto& kind = kKinds[input.Below(std::size(kKinds))];
  gguf.model = kind.model;
  gguf.pre = kind.pre;
  const bool scored = gguf.model != "gpt2";
  const uint8_t has = input.Byte();
  const uint8_t bos = input.Byte();
  const uint8_t eos = input.Byte();
  if ((has & 1) != 0) gguf.bos_id = bos;
  if ((has & 2) != 0) gguf.eos_id = eos;
  if ((has & 4) != 0) gguf.eot_id = bos ^ eos;
  if ((has & 8) != 0) gguf.add_bos = (has & 16) != 0;
  if ((has & 128) != 0) gguf.add_space_prefix = gguf.remove_extra_spaces = (eos & 1) != 0;
  if ((has & 32) != 0) gguf.chat_template = "{{ messages[0].content }}";
  for (;;) {
    absl::string_view line = input.TakeUntil('\n');
    if (line.empty()) break;
    if ((has & 64) != 0) gguf.token_types.push_back(line[0] - '0');
    if (scored && line.size() > 1) {
      gguf.scores.push_back(line[1] == '?' ? std::nanf("") : 'a' - static_cast<float>(line[1]));
      line.remove_prefix(1);
    }
    gguf.tokens.emplace_back(line.substr(1));
  }
  for (;;) {
    const absl::string_view line = input.TakeUntil('\n');
    if (line.empty()) break;
    gguf.merges.emplace_back(line);
  }
  const auto spec = folio::model::TokenizerFromGguf(gguf);
  if (!spec.ok()) return 0;
  folio::fuzz::EncodeText(*spec, static_cast<uint32_t>(gguf.tokens.size()), input.rest());
  return 0;
}
