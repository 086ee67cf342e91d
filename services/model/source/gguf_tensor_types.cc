#include "services/model/source/gguf_tensor_types.h"

#include <algorithm>
#include <array>

namespace folio::model {
namespace {

constexpr std::array kTypes = {
    GgufTensorType{0, "F32", StorageType::kF32},
    GgufTensorType{1, "F16", StorageType::kF16},
    GgufTensorType{2, "Q4_0", StorageType::kQ4_0},
    GgufTensorType{3, "Q4_1", StorageType::kQ4_1},
    GgufTensorType{6, "Q5_0", StorageType::kQ5_0},
    GgufTensorType{7, "Q5_1", StorageType::kQ5_1},
    GgufTensorType{8, "Q8_0", StorageType::kQ8_0},
    GgufTensorType{9, "Q8_1", StorageType::kOther},
    GgufTensorType{10, "Q2_K", StorageType::kQ2K},
    GgufTensorType{11, "Q3_K", StorageType::kQ3K},
    GgufTensorType{12, "Q4_K", StorageType::kQ4K},
    GgufTensorType{13, "Q5_K", StorageType::kQ5K},
    GgufTensorType{14, "Q6_K", StorageType::kQ6K},
    GgufTensorType{15, "Q8_K", StorageType::kOther},
    GgufTensorType{16, "IQ2_XXS", StorageType::kOther},
    GgufTensorType{17, "IQ2_XS", StorageType::kOther},
    GgufTensorType{18, "IQ3_XXS", StorageType::kOther},
    GgufTensorType{19, "IQ1_S", StorageType::kOther},
    GgufTensorType{20, "IQ4_NL", StorageType::kIq4Nl},
    GgufTensorType{21, "IQ3_S", StorageType::kOther},
    GgufTensorType{22, "IQ2_S", StorageType::kOther},
    GgufTensorType{23, "IQ4_XS", StorageType::kIq4Xs},
    GgufTensorType{24, "I8", StorageType::kOther},
    GgufTensorType{25, "I16", StorageType::kOther},
    GgufTensorType{26, "I32", StorageType::kOther},
    GgufTensorType{27, "I64", StorageType::kOther},
    GgufTensorType{28, "F64", StorageType::kOther},
    GgufTensorType{29, "IQ1_M", StorageType::kOther},
    GgufTensorType{30, "BF16", StorageType::kBF16},
    GgufTensorType{34, "TQ1_0", StorageType::kOther},
    GgufTensorType{35, "TQ2_0", StorageType::kOther},
    GgufTensorType{39, "MXFP4", StorageType::kOther},
    GgufTensorType{40, "NVFP4", StorageType::kOther},
};

template <typename Predicate>
const GgufTensorType* FindWhere(Predicate is) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), is);
  return found == kTypes.end() ? nullptr : found;
}

}  // namespace

const GgufTensorType* FindTensorType(uint32_t code) {
  return FindWhere([code](const GgufTensorType& each) { return each.code == code; });
}

const GgufTensorType* FindTensorType(absl::string_view name) {
  return FindWhere([name](const GgufTensorType& each) { return each.name == name; });
}

}  // namespace folio::model
