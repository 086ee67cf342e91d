#include "services/model/tp/rank_command.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

static_assert(std::endian::native == std::endian::little);

// Writes and Reads name the same fields in the same order: `Fields` is called with either.
class Writer {
 public:
  explicit Writer(std::string& bytes) : bytes_(bytes) {}

  void Word(uint32_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Field(const uint32_t& value) { Word(value); }
  void Field(const bool& value) { Word(value ? 1 : 0); }
  void Field(const uint64_t& value) {
    Word(static_cast<uint32_t>(value));
    Word(static_cast<uint32_t>(value >> 32));
  }
  void Field(const ScoreKind& kind) { Word(static_cast<uint32_t>(kind)); }
  template <typename Tag>
  void Field(const StrongInt<Tag, uint32_t>& id) {
    Word(id.value());
  }
  void Field(const PageRef& ref) {
    Field(ref.page);
    Field(ref.generation);
  }
  void Field(const PageSwap& swap) {
    Field(swap.page);
    Field(swap.slot);
  }
  void Field(const PositionRange& range) {
    Field(range.begin);
    Field(range.end);
  }
  void Field(const ClaimedLayer& layer) {
    Field(layer.pages);
    Field(layer.positions);
  }
  template <typename T>
  void Field(const std::optional<T>& value) {
    Field(value.has_value());
    if (value.has_value()) Field(*value);
  }
  template <typename T>
  void Field(const std::vector<T>& list) {
    Word(static_cast<uint32_t>(list.size()));
    for (const T& one : list) Field(one);
  }
  void Field(const StepSegment& segment);

 private:
  std::string& bytes_;
};

// Keeps zeros and the first error once something cannot be read.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  bool done() const { return at_ == bytes_.size() || !status_.ok(); }
  const absl::Status& status() const { return status_; }
  void Refuse() {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat("the leader's command cannot be read at byte ", at_, " of ", bytes_.size()));
  }

  uint32_t Word() {
    uint32_t value = 0;
    if (bytes_.size() - at_ < sizeof(value)) Refuse();
    if (!status_.ok()) return 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  void Field(uint32_t& value) { value = Word(); }
  void Field(bool& value) {
    const uint32_t word = Word();
    if (word > 1) Refuse();
    value = word == 1;
  }
  void Field(uint64_t& value) {
    const uint64_t low = Word();
    value = low | uint64_t{Word()} << 32;
  }
  void Field(ScoreKind& kind) {
    const uint32_t word = Word();
    if (word >= kNumScoreKinds) Refuse();
    kind = static_cast<ScoreKind>(word);
  }
  template <typename Tag>
  void Field(StrongInt<Tag, uint32_t>& id) {
    id = StrongInt<Tag, uint32_t>(Word());
  }
  void Field(PageRef& ref) {
    Field(ref.page);
    Field(ref.generation);
  }
  void Field(PageSwap& swap) {
    Field(swap.page);
    Field(swap.slot);
  }
  void Field(PositionRange& range) {
    Field(range.begin);
    Field(range.end);
  }
  void Field(ClaimedLayer& layer) {
    Field(layer.pages);
    Field(layer.positions);
  }
  template <typename T>
  void Field(std::optional<T>& value) {
    bool has = false;
    Field(has);
    if (!has) return;
    value.emplace();
    Field(*value);
  }
  template <typename T>
  void Field(std::vector<T>& list) {
    const uint32_t count = Word();
    // Every element has a word at least: a longer list cannot be there.
    if (count > (bytes_.size() - at_) / sizeof(uint32_t)) Refuse();
    if (!status_.ok()) return;
    list.resize(count);
    for (T& one : list) Field(one);
  }
  void Field(StepSegment& segment);

 private:
  absl::string_view bytes_;
  size_t at_ = 0;
  absl::Status status_;
};

template <typename Pass, typename Segment>
void Fields(Pass& pass, Segment& segment) {
  pass.Field(segment.slot);
  pass.Field(segment.prompt);
  pass.Field(segment.tokens);
  pass.Field(segment.first_position);
  pass.Field(segment.want_output);
  pass.Field(segment.score_resident);
  pass.Field(segment.window.queries);
  pass.Field(segment.window.neighbours);
  pass.Field(segment.window.channel);
  pass.Field(segment.scored_layers.begin);
  pass.Field(segment.scored_layers.end);
}

void Writer::Field(const StepSegment& segment) {
  Fields(*this, segment);
  Field(segment.top_logprobs > 0);
}
void Reader::Field(StepSegment& segment) {
  Fields(*this, segment);
  bool lists = false;
  Field(lists);
  segment.top_logprobs = lists ? 1 : -1;
}

// Names the fields of each command, for reading and for writing.
struct CommandFields {
  template <typename Pass, typename Command>
  static void Go(Pass& pass, Command& command) {
    using Kind = std::remove_const_t<Command>;
    if constexpr (requires { command.slot; }) pass.Field(command.slot);
    if constexpr (std::is_same_v<Kind, AcquireEdit>) pass.Field(command.score);
    if constexpr (requires { command.clear; }) pass.Field(command.clear);
    if constexpr (std::is_same_v<Kind, ExtendEdit>) pass.Field(command.pages);
    if constexpr (std::is_same_v<Kind, RestoreEdit>) pass.Field(command.layers);
    if constexpr (std::is_same_v<Kind, CompactCommand>) {
      pass.Field(command.compact.keep);
      pass.Field(command.compact.spare);
    }
    if constexpr (std::is_same_v<Kind, SwapCommand>) {
      pass.Field(command.swaps.out);
      pass.Field(command.swaps.pages);
    }
    if constexpr (std::is_same_v<Kind, DropEdit>) pass.Field(command.drop.block);
    if constexpr (std::is_same_v<Kind, StepCommand>) {
      pass.Field(command.batch.segments);
      pass.Field(command.digest);
    }
  }
};

// The variant's alternative number `kind`, empty.
template <size_t... Kinds>
std::optional<RankCommand> MakeCommand(uint32_t kind, std::index_sequence<Kinds...>) {
  std::optional<RankCommand> made;
  ((kind == Kinds ? void(made.emplace(std::in_place_index<Kinds>)) : void()), ...);
  return made;
}

}  // namespace

void AppendCommand(const RankCommand& command, std::string& bytes) {
  Writer writer(bytes);
  writer.Word(static_cast<uint32_t>(command.index()));
  std::visit([&writer](const auto& one) { CommandFields::Go(writer, one); }, command);
}

void AppendEdit(TableEdit edit, std::string& bytes) {
  std::visit([&bytes](auto& one) { AppendCommand(std::move(one), bytes); }, edit);
}

absl::StatusOr<std::vector<RankCommand>> ReadCommands(absl::string_view bytes) {
  Reader reader(bytes);
  std::vector<RankCommand> commands;
  while (!reader.done()) {
    std::optional<RankCommand> command =
        MakeCommand(reader.Word(), std::make_index_sequence<std::variant_size_v<RankCommand>>());
    if (!command.has_value()) {
      reader.Refuse();
      break;
    }
    std::visit([&reader](auto& one) { CommandFields::Go(reader, one); }, *command);
    commands.push_back(*std::move(command));
  }
  if (!reader.status().ok()) return reader.status();
  return commands;
}

uint64_t BatchDigest(const SequenceTables& tables, const StepBatch& batch) {
  uint64_t digest = 0;
  for (const StepSegment& segment : batch.segments) {
    digest = std::rotl(digest, 7) ^ tables.at(segment.slot).Digest();
  }
  return digest;
}

}  // namespace folio::model
