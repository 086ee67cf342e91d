#include "services/model/source/gguf_file.h"
#include "services/model/source/model_source.h"
#include "tests/fuzz/parsers/memory_file.h"

// Each byte of each tensor is read, so that one outside of the file is found. Then the file is
// opened as a model.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const folio::fuzz::MemoryFile input(data, size);
  const auto mapped = folio::model::MappedFile::Open(input.path());
  if (!mapped.ok()) std::abort();
  const auto file = folio::model::GgufFile::Parse(*mapped);
  if (!file.ok()) return 0;
  for (const auto& tensor : file->tensors()) {
    for (const std::byte byte : tensor.bytes) {
      const volatile std::byte seen = byte;
      (void)seen;
    }
  }
  (void)folio::model::OpenModel(input.path());
  return 0;
}
