// write_tiny_model DIRECTORY [FAMILY [CONTEXT]]: writes a tiny model of a family (llama unless
// said) with a context of so many tokens (2048 unless said) as a Hugging Face directory, and beside
// its files as DIRECTORY/model.gguf. Its heads are of 64, which GPUs serve.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "services/model/family/family.h"
#include "tests/testing/tiny_model.h"

int main(int argc, char** argv) {
  const std::string family = argc >= 3 ? argv[2] : "llama";
  uint32_t context = 2048;
  const bool is_number = argc < 4 || absl::SimpleAtoi(argv[3], &context);
  if (argc < 2 || argc > 4 || !is_number || folio::model::FindFamily(family) == nullptr) {
    std::fprintf(stderr, "usage: write_tiny_model DIRECTORY [FAMILY [CONTEXT]]\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::filesystem::create_directories(directory);
  const folio::testing::TinyModel model(
      {.seed = 11, .layers = 3, .head_dim = 64, .context = context, .family = family});
  model.WriteHf(directory);
  model.WriteGguf(directory + "/model.gguf");
  return 0;
}
