#include <cstdlib>

#include "services/model/source/hf_files.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/fuzz/parsers/byte_source.h"
#include "tests/fuzz/parsers/encode_text.h"
#include "tests/fuzz/parsers/memory_folder.h"

// tokenizer.json, tokenizer_config.json and generation_config.json of a model, and a text for it,
// each up to a byte 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const folio::fuzz::MemoryFolder folder;
  folio::fuzz::ByteSource input({reinterpret_cast<const char*>(data), size});
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    const absl::string_view text = input.TakeUntil('\0');
    folder.Remove(name);
    if (!text.empty()) folder.Write(name, text);
  }
  constexpr uint32_t kVocabulary = 1024;
  const auto spec = folio::model::ReadHfTokenizer(folder.path(), kVocabulary);
  if (spec.ok()) folio::fuzz::EncodeText(*spec, kVocabulary, input.rest());
  return 0;
}
