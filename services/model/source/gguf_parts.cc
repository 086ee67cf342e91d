#include "services/model/source/gguf_parts.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/model/source/gguf_fields.h"

namespace folio::model {
namespace {

constexpr size_t kDigits = 5;  // at least
constexpr uint32_t kMaxParts = 10'000;

absl::StatusOr<GgufFile> OpenOne(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return GgufFile::Parse(*std::move(file));
}

// Takes the digits at the end of `text`, at least kDigits of them.
std::optional<uint32_t> TakeNumber(absl::string_view& text) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[text.size() - 1 - digits])) ++digits;
  uint32_t number = 0;
  if (digits < kDigits || !absl::SimpleAtoi(text.substr(text.size() - digits), &number)) {
    return std::nullopt;
  }
  text.remove_suffix(digits);
  return number;
}

// "models/NAME" of "models/NAME-00001-of-00003.gguf", if this is part 1 of 3.
std::optional<std::string> CommonName(absl::string_view path, uint32_t number, uint32_t count) {
  const absl::string_view ending = ".gguf";
  const absl::string_view between = "-of-";
  if (!absl::EndsWith(path, ending)) return std::nullopt;
  path.remove_suffix(ending.size());
  if (TakeNumber(path) != count || !absl::EndsWith(path, between)) return std::nullopt;
  path.remove_suffix(between.size());
  if (TakeNumber(path) != number || !absl::EndsWith(path, "-")) return std::nullopt;
  path.remove_suffix(1);
  return std::string(path);
}

// A part's account of itself.
struct Place {
  uint32_t number = 0;   // from 0
  uint32_t count = 1;    // of parts
  uint32_t tensors = 0;  // of all parts
};

absl::StatusOr<Place> PlaceOf(const GgufFile& gguf) {
  GgufFields fields(gguf);
  Place place;
  place.count = fields.Uint("split.count", 1);
  if (place.count > 1) {
    place.number = fields.Uint("split.no");
    place.tensors = fields.Uint("split.tensors.count");
  }
  if (!fields.status().ok()) return fields.status();
  if (place.count > kMaxParts || (place.count > 1 && place.number >= place.count)) {
    return absl::DataLossError(absl::StrCat(gguf.path(), ": split.no: ", place.number,
                                            ", but split.count is ", place.count));
  }
  return place;
}

// The part of that number beside the one whose place is `given`.
absl::StatusOr<GgufFile> OpenPart(const std::string& path, uint32_t number, const Place& given) {
  absl::StatusOr<GgufFile> part = OpenOne(path);
  if (absl::IsNotFound(part.status())) {
    return absl::NotFoundError(absl::StrCat(path, ": part ", number + 1, " of ", given.count,
                                            " of the model is not there (download it again)"));
  }
  if (!part.ok()) return part.status();
  const absl::StatusOr<Place> place = PlaceOf(*part);
  if (!place.ok()) return place.status();
  const auto check = [&](absl::string_view key, uint32_t have, uint32_t want) -> absl::Status {
    if (have == want) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path, ": ", key, ": ", have, ", but the other parts and the name say ", want));
  };
  absl::Status status = check("split.count", place->count, given.count);
  status.Update(check("split.no", place->number, number));
  status.Update(check("split.tensors.count", place->tensors, given.tensors));
  if (!status.ok()) return status;
  return part;
}

}  // namespace

absl::StatusOr<GgufFile> OpenGgufModel(const std::string& path) {
  absl::StatusOr<GgufFile> given = OpenOne(path);
  if (!given.ok()) return given;
  const absl::StatusOr<Place> place = PlaceOf(*given);
  if (!place.ok()) return place.status();
  if (place->count <= 1) return given;
  const std::optional<std::string> name = CommonName(path, place->number + 1, place->count);
  if (!name.has_value()) {
    const std::string usual =
        absl::StrFormat("-%05d-of-%05d.gguf", place->number + 1, place->count);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": split.count: the model has ", place->count,
                     " parts, and the name of this one must end with ", usual,
                     ", so that the others are found"));
  }
  std::optional<GgufFile> model;
  for (uint32_t number = 0; number < place->count; ++number) {
    absl::StatusOr<GgufFile> part = OpenPart(
        absl::StrFormat("%s-%05d-of-%05d.gguf", *name, number + 1, place->count), number, *place);
    if (!part.ok()) return part.status();
    if (!model.has_value()) {
      model = *std::move(part);
    } else if (absl::Status status = model->Append(*std::move(part)); !status.ok()) {
      return status;
    }
  }
  if (model->tensors().size() != place->tensors) {
    return absl::DataLossError(absl::StrCat(path, ": split.tensors.count: ", place->tensors,
                                            ", but the parts have ", model->tensors().size(),
                                            " tensors"));
  }
  return *std::move(model);
}

}  // namespace folio::model
