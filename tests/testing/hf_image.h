// HfImage is a Hugging Face model directory as an editable structure. It checks nothing, because
// tests use it to make damaged directories.
#ifndef FOLIO_TESTS_TESTING_HF_IMAGE_H_
#define FOLIO_TESTS_TESTING_HF_IMAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace folio::testing {

struct HfTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

// The tensors one after another.
nlohmann::json SafetensorsHeader(const std::vector<HfTensor>& tensors);
std::string Safetensors(const std::string& header, const std::string& data);
std::string SerializeSafetensors(const std::vector<HfTensor>& tensors);

// NOLINTNEXTLINE(bugprone-exception-escape): json's move does not throw, but is not noexcept.
struct HfImage {
  nlohmann::json config;
  nlohmann::json tokenizer;
  nlohmann::json tokenizer_config;
  nlohmann::json generation_config;
  std::vector<HfTensor> tensors;
  int shards = 1;  // more: tensors dealt out in turn, with an index

  HfTensor& Tensor(const std::string& name);  // must be there
  void EraseTensor(const std::string& name);

  // Contents by file name.
  std::map<std::string, std::string> Files() const;
  // Writes into an existing directory.
  void Write(const std::string& directory) const;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_HF_IMAGE_H_
