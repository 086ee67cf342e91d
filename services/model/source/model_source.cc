#include "services/model/source/model_source.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/check.h"
#include "services/model/source/quantized_tensor.h"
#include "services/model/source/raw_model.h"
#include "services/model/source/stored_scales.h"
#include "services/model/source/tensor_names.h"
#include "services/runtime/logging.h"

namespace folio::model {
namespace {

class StoredModel final : public ModelSource {
 public:
  // `tensors` in the order of the family's: the model's, then each layer's.
  StoredModel(RawModel parts, std::vector<StoredTensor> tensors)
      : parts_(std::move(parts)), tensors_(std::move(tensors)) {
    for (const TensorSpec& spec : parts_.family->tensors) {
      size_t& count = InfoOf(spec.role).in_layer ? in_layer_ : in_model_;
      places_[static_cast<size_t>(spec.role)] = count++;
    }
  }

  const ModelConfig& config() const override { return parts_.config; }
  const TokenizerSpec& tokenizer() const override { return parts_.tokenizer; }

  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override {
    return ReadBf16(Find(role, layer), OrderOf(role));
  }

  absl::StatusOr<ScaledMatrix> ReadScaled(Role role, uint32_t layer) const override {
    const StoredTensor& tensor = Find(role, layer);
    if (tensor.type != StorageType::kE4M3) return ModelSource::ReadScaled(role, layer);
    return ReadCodes(tensor, OrderOf(role));
  }

  absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(
      Role role, uint32_t layer) const override {
    return model::ReadQuantized(Find(role, layer), OrderOf(role));
  }

  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override {
    absl::StatusOr<std::vector<float>> values = ReadFloats(Find(role, layer), OrderOf(role));
    if (!values.ok()) return values;
    const bool less_one = parts_.format == Format::kHf && parts_.family->hf_norms_less_one;
    if (less_one && InfoOf(role).norm()) {
      for (float& value : *values) value += 1;
    }
    // Norms of queries take the scale of scores, which kernels know as 1 / sqrt(head_dim) alone.
    if (role == Role::kQueryNorm && parts_.config.query_gain != 1) {
      for (float& value : *values) value *= parts_.config.query_gain;
    }
    if (role == Role::kFinalNorm && parts_.config.output_gain != 1) {
      for (float& value : *values) value *= parts_.config.output_gain;
    }
    return values;
  }

  std::string fingerprint() const override {
    XXH3_state_t* state = XXH3_createState();
    FOLIO_CHECK(state != nullptr);
    XXH3_128bits_reset(state);
    const auto add = [state](const void* data, size_t size) {
      if (size != 0) XXH3_128bits_update(state, data, size);
    };
    const std::string text =
        absl::StrCat("folio-model-1/", stored_in_pairs(), "/", ConfigText(parts_.config));
    add(text.data(), text.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const bool output = i == places_[static_cast<size_t>(Role::kOutput)];
      if (output && parts_.config.tied_embeddings) continue;
      const StoredTensor& tensor = tensors_[i];
      const std::string head = absl::StrCat("/", tensor.type_name, ShapeText(tensor.shape));
      add(head.data(), head.size());
      add(tensor.bytes.data(), tensor.bytes.size());
      add(tensor.scales.data(), tensor.scales.size() * sizeof(float));
      if (tensor.packed == nullptr || tensor.first_row != 0) continue;
      for (const StoredBytes part : tensor.packed->Parts()) add(part.data(), part.size());
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
  }

 private:
  bool stored_in_pairs() const {
    return parts_.format == Format::kGguf && parts_.family->gguf_rows == RopeRows::kPairs;
  }
  RowOrder OrderOf(Role role) const {
    if (!InfoOf(role).rotated) return {};
    return {parts_.config.head_dim, parts_.config.rotary(), stored_in_pairs()};
  }

  const StoredTensor& Find(Role role, uint32_t layer) const {
    const std::optional<size_t> place = places_[static_cast<size_t>(role)];
    FOLIO_CHECK(place.has_value());
    if (!InfoOf(role).in_layer) return tensors_[*place];
    FOLIO_CHECK(layer < parts_.config.num_layers);
    return tensors_[in_model_ + layer * in_layer_ + *place];
  }

  RawModel parts_;
  std::vector<StoredTensor> tensors_;
  // The place of each role among the model's tensors, or among a layer's. Roles that the family
  // lacks have none.
  std::array<std::optional<size_t>, kRoles> places_;
  size_t in_model_ = 0;
  size_t in_layer_ = 0;
};

// Finds the family's tensors among those of the files and checks type and shape.
class TensorFinder {
 public:
  explicit TensorFinder(const RawModel& parts) : parts_(parts) {}

  // DATA_LOSS: two tensors have one name.
  absl::Status Index() {
    for (const StoredTensor& tensor : parts_.tensors) {
      if (!by_name_.emplace(tensor.name, &tensor).second) {
        return absl::DataLossError(
            absl::StrCat(tensor.file, ": tensor ", tensor.name, ": appears twice"));
      }
    }
    return absl::OkStatus();
  }

  // Adds the tensors of a layer, or those of the model, to `taken` in the family's order.
  absl::Status Take(std::optional<uint32_t> layer, std::vector<StoredTensor>& taken) {
    absl::Span<const TensorSpec> specs = parts_.family->tensors;
    while (!specs.empty()) {
      size_t count = 1;
      while (count < specs.size() && SameTensor(specs[0], specs[count])) ++count;
      if (InfoOf(specs[0].role).in_layer == layer.has_value()) {
        absl::Status status = TakeOne(specs.first(count), layer.value_or(0), taken);
        if (!status.ok()) return status;
      }
      specs.remove_prefix(count);
    }
    return absl::OkStatus();
  }

  bool used(const std::string& name) const { return used_.contains(name); }
  const TensorNames& names() const { return names_; }

 private:
  bool SameTensor(const TensorSpec& a, const TensorSpec& b) const {
    return names_.Of(a, 0) == names_.Of(b, 0);
  }

  // One tensor of the file, which holds the rows of all of `specs`.
  absl::Status TakeOne(absl::Span<const TensorSpec> specs, uint32_t layer,
                       std::vector<StoredTensor>& taken) {
    const TensorSpec first = names_.Source(specs[0]);
    const std::string name = names_.Of(first, layer);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return names_.Missing(first, layer);
    StoredTensor tensor = *found->second;
    const std::string where = absl::StrCat(tensor.file, ": tensor ", name, ": ");
    const RoleInfo& info = InfoOf(first.role);
    // A vector of several parts may be cut anywhere, which a block of quantised values cannot.
    const bool served = tensor.type != StorageType::kOther &&
                        !(info.vector() && (tensor.type == StorageType::kE4M3 ||
                                            tensor.type == StorageType::kPacked)) &&
                        (specs.size() == 1 || !info.vector() || BlockValues(tensor.type) == 1);
    if (!served) {
      return absl::UnimplementedError(
          absl::StrCat(where, "type ", tensor.type_name, " is not supported"));
    }
    uint64_t rows = 0;
    for (const TensorSpec& spec : specs) rows += Rows(spec);
    std::vector<uint64_t> shape = {rows};
    if (!info.vector()) shape.push_back(SizeOf(info.cols, parts_.config));
    if (tensor.shape != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "shape ", ShapeText(tensor.shape), ", expected ", ShapeText(shape)));
    }
    if (tensor.type == StorageType::kE4M3) {
      absl::Status scaled = TakeScales(by_name_, tensor);
      if (!scaled.ok()) return scaled;
      used_.insert(ScalesName(name));
    }
    uint64_t row = 0;
    for (const TensorSpec& spec : specs) {
      taken.push_back(SliceRows(tensor, row, Rows(spec)));
      row += Rows(spec);
    }
    used_.insert(name);
    return absl::OkStatus();
  }

  uint64_t Rows(const TensorSpec& spec) const {
    return SizeOf(InfoOf(spec.role).rows, parts_.config);
  }

  const RawModel& parts_;
  TensorsByName by_name_;
  const TensorNames names_{parts_, by_name_};
  absl::flat_hash_set<std::string> used_;
};

absl::Status CheckSpecialIds(const RawModel& parts) {
  const auto outside = [&parts](absl::string_view what, uint32_t id) {
    return absl::InvalidArgumentError(absl::StrCat(parts.origin, ": ", what, ": token ", id,
                                                   " is outside the vocabulary of ",
                                                   parts.config.vocab, " tokens"));
  };
  for (const uint32_t id : parts.tokenizer.eos_ids) {
    if (id >= parts.config.vocab) return outside("end of sequence", id);
  }
  if (parts.tokenizer.add_bos && parts.tokenizer.bos_id >= parts.config.vocab) {
    return outside("beginning of sequence", parts.tokenizer.bos_id);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScaledMatrix> ModelSource::ReadScaled(Role role, uint32_t layer) const {
  const absl::StatusOr<std::vector<kernels::bf16>> values = ReadMatrix(role, layer);
  if (!values.ok()) return values.status();
  const size_t cols = SizeOf(InfoOf(role).cols, config());
  ScaledMatrix matrix;
  matrix.codes.resize(values->size());
  for (size_t at = 0; at + cols <= values->size(); at += cols) {
    matrix.scales.push_back(kernels::QuantizeRow(&(*values)[at], cols, &matrix.codes[at]));
  }
  return matrix;
}

absl::StatusOr<std::unique_ptr<ModelSource>> AssembleModel(RawModel parts) {
  if (absl::Status status = CheckConfig(parts.origin, parts.config); !status.ok()) return status;
  if (absl::Status status = CheckSpecialIds(parts); !status.ok()) return status;
  TensorFinder finder(parts);
  if (absl::Status status = finder.Index(); !status.ok()) return status;
  std::vector<StoredTensor> tensors;
  absl::Status status = finder.Take(std::nullopt, tensors);
  for (uint32_t layer = 0; layer < parts.config.num_layers && status.ok(); ++layer) {
    status = finder.Take(layer, tensors);
  }
  if (!status.ok()) return status;
  for (const StoredTensor& tensor : parts.tensors) {
    if (finder.used(tensor.name)) continue;
    if (absl::Status unused = finder.names().CheckUnused(tensor); !unused.ok()) return unused;
    log::Info("tensor is not needed, ignored", {{"file", tensor.file}, {"tensor", tensor.name}});
  }
  return std::make_unique<StoredModel>(std::move(parts), std::move(tensors));
}

absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& path,
                                                       uint32_t max_context) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot open the model"));
  }
  absl::StatusOr<RawModel> parts = S_ISDIR(info.st_mode) ? ReadHfModel(path) : ReadGgufModel(path);
  if (!parts.ok()) return parts.status();
  if (max_context != 0) parts->config.context = std::min(parts->config.context, max_context);
  return AssembleModel(*std::move(parts));
}

}  // namespace folio::model
