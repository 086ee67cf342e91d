// write_tiny_model DIRECTORY [FAMILY [CONTEXT [HEAD_DIM]]]: writes a tiny model of a family (llama
// unless said) with a context of so many tokens (2048 unless said) as a Hugging Face directory, and
// beside its files as DIRECTORY/model.gguf. Its heads are of 64 unless said, which GPUs serve.
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
  uint32_t head_dim = 64;
  const bool numbers = (argc < 4 || absl::SimpleAtoi(argv[3], &context)) &&
                       (argc < 5 || absl::SimpleAtoi(argv[4], &head_dim));
  if (argc < 2 || argc > 5 || !numbers || folio::model::FindFamily(family) == nullptr) {
    std::fprintf(stderr, "usage: write_tiny_model DIRECTORY [FAMILY [CONTEXT [HEAD_DIM]]]\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::filesystem::create_directories(directory);
  const folio::testing::TinyModel model(
      {.seed = 11, .layers = 3, .head_dim = head_dim, .context = context, .family = family});
  model.WriteHf(directory);
  model.WriteGguf(directory + "/model.gguf");
  return 0;
}
