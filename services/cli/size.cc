// folioctl size computes how much memory sequences take, and how many sequences a pool has room
// for.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "services/base/footprint.h"
#include "services/base/geometry.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/format.h"
#include "services/cli/table.h"
#include "services/wire/layout.h"

namespace folio::cli {
namespace {

struct SizeFlags {
  uint64_t prompt = 4096;
  uint64_t max_tokens = 512;
  uint64_t budget = 0;
  uint64_t stride = 0;
  uint64_t sequences = 0;
  uint64_t pool = 0;  // bytes
  CacheGeometry shape = {.page_tokens = 16};
};

// The pages of one sequence, in all layers together.
struct Need {
  uint64_t prompt = 0;    // from its start until the prompt is in the cache and compacted
  uint64_t decoding = 0;  // afterwards
};

// The same of one layer with a window, which holds that and the chunks of the prompt under way.
Need ComputeWindowed(const SizeFlags& flags, const CacheGeometry& shape) {
  constexpr uint64_t kChunk = 1024;  // two of a worker's default
  const uint64_t page = shape.page_tokens;
  const uint64_t window = shape.windows.MostFullTokens(shape.page_tokens);
  const Footprint footprint(page, window);
  const uint64_t part = std::min(flags.prompt, window + page + kChunk);
  Need need;
  need.decoding = footprint.MaxPages(flags.prompt, flags.max_tokens);
  need.prompt =
      std::max(footprint.ForPrompt(part, flags.prompt - part + flags.max_tokens), need.decoding);
  return need;
}

Need Compute(const SizeFlags& flags, const CacheGeometry& shape) {
  // The manager rounds no budget. It refuses one that is not a multiple of the page, so this is the
  // least budget that it accepts.
  const uint64_t page = shape.page_tokens;
  const uint64_t budget = (flags.budget + page - 1) / page * page;
  const Footprint footprint(page, budget);
  const bool compacts = budget != 0 && flags.prompt > budget;
  const uint64_t resident = compacts ? budget : flags.prompt;
  uint64_t windowed = 0;
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    windowed += shape.windows.contains(layer) ? 1 : 0;
  }
  const uint64_t layers = shape.num_layers - windowed;
  Need need;
  need.decoding = layers * footprint.MaxPages(resident, flags.max_tokens);
  // A streamed compaction has so much of the prompt at once. The rest comes later, as an answer
  // does.
  const uint64_t part =
      flags.stride == 0 ? flags.prompt : std::min(flags.prompt, budget + flags.stride);
  const uint64_t later = flags.prompt - part + flags.max_tokens;
  need.prompt = compacts ? layers * footprint.ForPrompt(part, later) : need.decoding;
  if (windowed == 0) return need;
  const Need of_window = ComputeWindowed(flags, shape);
  need.prompt += windowed * of_window.prompt;
  need.decoding += windowed * of_window.decoding;
  return need;
}

absl::StatusOr<CacheGeometry> ShapeOf(const SizeFlags& flags, Context& context) {
  if (flags.shape.num_layers != 0) return flags.shape;
  const auto client = context.ConnectWorker();
  if (!client.ok()) {
    return absl::Status(client.status().code(),
                        absl::StrCat(client.status().message(),
                                     "; without a worker, give --layers, --kv_heads and "
                                     "--head_dim of the model"));
  }
  const auto model = (*client)->GetModel(context.Call());
  if (!model.ok()) return model.status();
  const auto& layout = model->layout();
  if (absl::Status known = wire::CheckLayout(layout); !known.ok()) return known;
  return wire::GeometryOf(layout);
}

absl::Status ShowSize(const SizeFlags& flags, Context& context) {
  const absl::StatusOr<CacheGeometry> shape = ShapeOf(flags, context);
  if (!shape.ok()) return shape.status();
  const Need need = Compute(flags, *shape);
  const uint64_t page_bytes = shape->page_bytes();
  // One prompt at a time at least must fit beside the sequences that decode.
  const uint64_t others = flags.sequences == 0 ? 0 : flags.sequences - 1;
  const uint64_t least = (need.prompt + others * need.decoding) * page_bytes;
  const uint64_t all = std::max<uint64_t>(flags.sequences, 1) * need.prompt * page_bytes;
  const uint64_t pages = flags.pool / page_bytes;
  if (context.structured()) {
    nlohmann::ordered_json json = {
        {"page_bytes", page_bytes}, {"prompt_pages", need.prompt}, {"decode_pages", need.decoding}};
    if (flags.sequences != 0) json["pool_bytes"] = {{"least", least}, {"all_prompts", all}};
    if (flags.pool != 0) {
      json["sequences"] = {{"in_prompt", pages / need.prompt}, {"decoding", pages / need.decoding}};
    }
    return context.Print(json);
  }
  const auto memory = [&](uint64_t count) {
    return absl::StrCat(FormatCount(count), " pages, ", FormatBytes(count * page_bytes));
  };
  Table table = Table::Facts();
  table.Row(
      {"page", absl::StrCat(shape->page_tokens, " tokens of a layer, ", FormatBytes(page_bytes))});
  table.Row({"a sequence until its prompt is compacted", memory(need.prompt)});
  table.Row({"a sequence while it decodes, at most", memory(need.decoding)});
  if (flags.sequences != 0) {
    table.Row({"pool, if prompts come one at a time",
               absl::StrCat("--pool_bytes=", least, " (", FormatBytes(least), ")")});
    table.Row({"pool, if all prompts come at once",
               absl::StrCat("--pool_bytes=", all, " (", FormatBytes(all), ")")});
  }
  if (flags.pool != 0) {
    table.Row({"sequences in the pool, all in their prompts", FormatCount(pages / need.prompt)});
    table.Row({"sequences in the pool, all decoding", FormatCount(pages / need.decoding)});
  }
  context.terminal.out << table.Render(context.terminal);
  return absl::OkStatus();
}

}  // namespace

void AddSize(CLI::App& root, Context& context) {
  auto flags = std::make_shared<SizeFlags>();
  CLI::App* command = AddCommand(
      root, "size", "Compute the memory of sequences, and the sequences that a pool has room for",
      "  folioctl size --prompt 8192 --budget 1024 --sequences 64\n"
      "  folioctl size --layers 32 --kv_heads 8 --head_dim 128 --prompt 8192 --pool 40GiB");
  command->add_option("--prompt", flags->prompt, "Tokens of a prompt")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--max_tokens", flags->max_tokens, "Tokens of an answer, at most")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  command
      ->add_option("--budget", flags->budget,
                   "Tokens that a layer keeps, rounded up to whole pages (0: all)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 32))
      ->capture_default_str();
  command
      ->add_option("--compaction_stride", flags->stride,
                   "Prompt tokens between streamed compactions (0: the prompt is compacted whole)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--sequences", flags->sequences, "Sequences at once: prints the pool's size")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20));
  command->add_option("--pool", flags->pool, "Size of a pool: prints how many sequences it holds")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  const auto number = CLI::Range(1u, 1u << 16);
  auto* layers = command->add_option("--layers", flags->shape.num_layers,
                                     "Layers of a model (default: the worker's model)");
  auto* heads = command->add_option("--kv_heads", flags->shape.num_kv_heads, "KV heads of a layer");
  auto* dim = command->add_option("--head_dim", flags->shape.head_dim, "Width of a KV head");
  layers->check(number)->needs(heads)->needs(dim);
  heads->check(number)->needs(layers);
  dim->check(number)->needs(layers);
  command->add_option("--page_tokens", flags->shape.page_tokens, "Tokens of a page")
      ->check(number)
      ->needs(layers)
      ->capture_default_str();
  SetAction(command, ShowSize, flags, context);
}

}  // namespace folio::cli
