// dequantize_blocks TYPE: reads blocks of a quantised type of ggml ("Q4_K") from the standard
// input, and writes their values to the standard output as float32. test_block_formats.py compares
// them.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "services/model/source/block_formats.h"
#include "services/model/source/gguf_tensor_types.h"

int main(int argc, char** argv) {
  const folio::model::GgufTensorType* known =
      argc == 2 ? folio::model::FindTensorType(argv[1]) : nullptr;
  if (known == nullptr || known->type == folio::model::StorageType::kOther) {
    std::fprintf(stderr, "usage: dequantize_blocks TYPE\n");
    return 2;
  }
  const folio::model::StorageType type = known->type;
  const std::string in{std::istreambuf_iterator<char>(std::cin), {}};
  const size_t block = folio::model::BlockBytes(type);
  if (in.size() % block != 0) {
    std::fprintf(stderr, "%zu bytes are not a whole number of blocks of %zu\n", in.size(), block);
    return 1;
  }
  std::vector<float> out(in.size() / block * folio::model::BlockValues(type));
  folio::model::DequantizeRow(type, reinterpret_cast<const std::byte*>(in.data()), out.size(),
                              out.data());
  std::fwrite(out.data(), sizeof(float), out.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}
