#include "services/model/source/hf_files.h"
#include "tests/fuzz/parsers/memory_folder.h"

// config.json to the sizes of a model. What was read has passed all checks, so the executor's sums
// with it do not overflow.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const folio::fuzz::MemoryFolder folder;
  folder.Write("config.json", {reinterpret_cast<const char*>(data), size});
  const auto config = folio::model::ReadHfConfig(folder.path());
  if (!config.ok()) return 0;
  if (config->num_layers == 0 || config->heads == 0 || config->kv_heads == 0) std::abort();
  if (config->heads % config->kv_heads != 0 || config->head_dim == 0) std::abort();
  return 0;
}
