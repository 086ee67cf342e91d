#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/fuzz/parsers/byte_source.h"

namespace {

using folio::model::ChatOptions;
using folio::model::Message;
using folio::model::Tokenizer;

// Two special tokens, which a message may write.
constexpr char kTokenizer[] = R"({"version":"1.0","added_tokens":[
  {"id":2,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
  {"id":3,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
  "model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2,"</s>":3},"merges":[]}})";
constexpr uint32_t kVocabulary = 4;

// A rendering that passes its limits keeps their memory until the process ends, so after so many
// of them this one ends, and run.sh begins the next one with the inputs that were found.
constexpr int kMostKept = 200;
constexpr int kBeginAgain = 99;  // the exit code that says so
uint64_t runs = 0;

bool PassedALimit(const absl::Status& status) {
  static int kept = 0;
  if (!absl::StrContains(status.message(), "of memory") &&
      !absl::StrContains(status.message(), "in time") &&
      !absl::StrContains(status.message(), "did not end")) {
    return false;
  }
  if (++kept < kMostKept) return true;
  std::fprintf(stderr, "stat::number_of_executed_units: %llu\n",
               static_cast<unsigned long long>(runs));
  _exit(kBeginAgain);
}

}  // namespace

// A template, the fields of a message, tools and variables for it, and the contents of the
// messages, each up to a byte 0. The same renderer runs in a worker, on a thread like this one's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ++runs;
  folio::fuzz::ByteSource input({reinterpret_cast<const char*>(data), size});
  folio::model::TokenizerSpec spec;
  spec.tokenizer_json = kTokenizer;
  spec.bos_token = "<s>";
  spec.eos_token = "</s>";
  spec.eos_ids = {3};
  spec.chat_template = std::string(input.TakeUntil('\0'));
  Message first = {"user", "", std::string(input.TakeUntil('\0'))};
  const ChatOptions options = {std::string(input.TakeUntil('\0')),
                               std::string(input.TakeUntil('\0'))};
  first.content = std::string(input.TakeUntil('\0'));
  const std::vector<Message> messages = {{"system", "Be <s>brief</s>."},
                                         std::move(first),
                                         {"assistant", std::string(input.TakeUntil('\0'))},
                                         {"user", std::string(input.rest())}};
  const auto tokenizer = Tokenizer::Create(spec, kVocabulary);
  if (!tokenizer.ok()) std::abort();
  const auto chat = (*tokenizer)->RenderChat(messages, options);
  // -1: it is no input to begin with.
  if (!chat.ok()) return PassedALimit(chat.status()) ? -1 : 0;
  size_t before = 0;
  for (const size_t cut : chat->cuts) {
    if (cut < before || cut > chat->text.size()) std::abort();
    before = cut;
  }
  (void)(*tokenizer)->EncodeChat(*chat);
  return 0;
}
