// This header opens tiny models and reads every tensor of them, for the tests of model sources. A
// tiny model says what is expected.
#ifndef FOLIO_TESTS_MODEL_SOURCE_READING_H_
#define FOLIO_TESTS_MODEL_SOURCE_READING_H_

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/testing/gguf_image.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {

// The file may go once it is open, because it is mapped.
inline absl::StatusOr<std::unique_ptr<ModelSource>> OpenGguf(
    const ::folio::testing::GgufImage& image) {
  const ::folio::testing::ScratchDirectory scratch;
  const std::string path = scratch.File("tiny.gguf");
  ::folio::testing::WriteFile(path, image.Serialize());
  return OpenModel(path);
}

// Calls `check` with the model as it is read from each container.
inline void ForBothContainers(const ::folio::testing::TinyModel& model,
                              absl::FunctionRef<void(const ModelSource&)> check) {
  const ::folio::testing::ScratchDirectory scratch;
  model.WriteHf(scratch.path());
  model.WriteGguf(scratch.File("tiny.gguf"));
  for (const std::string& path : {scratch.path(), scratch.File("tiny.gguf")}) {
    const auto source = OpenModel(path);
    ASSERT_TRUE(source.ok()) << source.status();
    check(**source);
  }
}

inline constexpr Role kMatrixRoles[] = {Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionOut,
                                        Role::kGate,  Role::kUp,  Role::kDown};

// All matrices and vectors, one after another, in a fixed order; or the first error.
inline absl::Status ReadAll(const ModelSource& source,
                            std::vector<std::vector<kernels::bf16>>& matrices,
                            std::vector<std::vector<float>>& vectors) {
  const auto matrix = [&](Role role, uint32_t layer) -> absl::Status {
    auto values = source.ReadMatrix(role, layer);
    if (!values.ok()) return values.status();
    matrices.push_back(*std::move(values));
    return absl::OkStatus();
  };
  const auto vector = [&](Role role, uint32_t layer) -> absl::Status {
    auto values = source.ReadVector(role, layer);
    if (!values.ok()) return values.status();
    vectors.push_back(*std::move(values));
    return absl::OkStatus();
  };
  absl::Status status = matrix(Role::kEmbedding, 0);
  status.Update(matrix(Role::kOutput, 0));
  status.Update(vector(Role::kFinalNorm, 0));
  for (uint32_t layer = 0; layer < source.config().num_layers; ++layer) {
    for (const Role role : kMatrixRoles) status.Update(matrix(role, layer));
    status.Update(vector(Role::kAttentionNorm, layer));
    status.Update(vector(Role::kFfnNorm, layer));
    if (source.config().features.has(Feature::kHeadNorms)) {
      status.Update(vector(Role::kQueryNorm, layer));
      status.Update(vector(Role::kKeyNorm, layer));
    }
    if (source.config().features.has(Feature::kPostNorms)) {
      status.Update(vector(Role::kPostAttentionNorm, layer));
      status.Update(vector(Role::kPostFfnNorm, layer));
    }
    if (!source.config().features.has(Feature::kQkvBias)) continue;
    for (const Role role : kQkvBiasRoles) status.Update(vector(role, layer));
  }
  return status;
}

// Largest difference from the model's own numbers, over all tensors.
inline float LargestError(const ModelSource& source, const ::folio::testing::TinyModel& model) {
  float largest = 0;
  for (const ::folio::testing::TinyTensor& tensor : model.tensors()) {
    std::vector<float> read;
    if (tensor.shape.size() == 1) {
      read = source.ReadVector(tensor.role, tensor.layer).value();
    } else {
      const auto matrix = source.ReadMatrix(tensor.role, tensor.layer).value();
      for (const auto value : matrix) read.push_back(value.ToFloat());
    }
    EXPECT_EQ(read.size(), tensor.values.size());
    for (size_t i = 0; i < read.size(); ++i) {
      largest = std::max(largest, std::fabs(read[i] - tensor.values[i]));
    }
  }
  return largest;
}

// Opens and reads everything: what loading a model does.
inline absl::Status Load(const std::string& path) {
  const auto source = OpenModel(path);
  if (!source.ok()) return source.status();
  std::vector<std::vector<kernels::bf16>> matrices;
  std::vector<std::vector<float>> vectors;
  absl::Status status = ReadAll(**source, matrices, vectors);
  if (status.ok() && (*source)->fingerprint().size() != 32) {
    return absl::InternalError("a fingerprint of another length");
  }
  return status;
}

}  // namespace folio::model

#endif  // FOLIO_TESTS_MODEL_SOURCE_READING_H_
