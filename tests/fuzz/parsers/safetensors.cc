#include "services/model/source/safetensors_file.h"
#include "tests/fuzz/parsers/memory_file.h"

// The tensors must lie in the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const folio::fuzz::MemoryFile input(data, size);
  const auto mapped = folio::model::MappedFile::Open(input.path());
  if (!mapped.ok()) std::abort();
  const auto tensors = folio::model::ParseSafetensors(**mapped);
  if (!tensors.ok()) return 0;
  const auto bytes = (*mapped)->bytes();
  for (const auto& tensor : *tensors) {
    if (tensor.bytes.empty()) continue;
    if (tensor.bytes.data() < bytes.data()) std::abort();
    if (tensor.bytes.data() + tensor.bytes.size() > bytes.data() + bytes.size()) std::abort();
  }
  return 0;
}
