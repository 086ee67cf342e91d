// write_tiny_model DIRECTORY: a tiny model with heads of 64, which GPUs serve, as a Hugging Face
// directory.
#include <cstdio>
#include <filesystem>

#include "tests/testing/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_tiny_model DIRECTORY\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  folio::testing::TinyModel({.seed = 11, .layers = 3, .head_dim = 64}).WriteHf(argv[1]);
  return 0;
}
