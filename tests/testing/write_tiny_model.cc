// write_tiny_model DIRECTORY [FAMILY]: writes a tiny model of a family (llama unless said) as a
// Hugging Face directory, and beside its files as DIRECTORY/model.gguf. Its heads are of 64, which
// GPUs serve.
#include <cstdio>
#include <filesystem>
#include <string>

#include "services/model/family/family.h"
#include "tests/testing/tiny_model.h"

int main(int argc, char** argv) {
  const std::string family = argc == 3 ? argv[2] : "llama";
  if (argc < 2 || argc > 3 || folio::model::FindFamily(family) == nullptr) {
    std::fprintf(stderr, "usage: write_tiny_model DIRECTORY [FAMILY]\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::filesystem::create_directories(directory);
  const folio::testing::TinyModel model(
      {.seed = 11, .layers = 3, .head_dim = 64, .family = family});
  model.WriteHf(directory);
  model.WriteGguf(directory + "/model.gguf");
  return 0;
}
