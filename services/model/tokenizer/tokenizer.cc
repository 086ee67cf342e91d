#include "services/model/tokenizer/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/model/tokenizer/ffi/tokenizer_ffi.h"
#include "services/text/utf8.h"

namespace folio::model {
namespace {

folio_tok_view View(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Copies the library's bytes and frees them.
std::string Take(folio_tok_bytes bytes) {
  std::string text;
  if (bytes.size > 0) text.assign(reinterpret_cast<const char*>(bytes.data), bytes.size);
  folio_tok_free_bytes(bytes);
  return text;
}

absl::Status InvalidArgument(absl::string_view what, folio_tok_bytes error) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", Take(error)));
}

struct FreeVocabulary {
  void operator()(folio_tok_vocabulary* vocabulary) const { folio_tok_free(vocabulary); }
};
using Vocabulary = std::unique_ptr<folio_tok_vocabulary, FreeVocabulary>;

// Seconds since 1970 in local time, as a clock on the wall counts them.
int64_t WallClockSeconds() {
  const absl::Time now = absl::Now();
  return absl::ToUnixSeconds(now) + absl::LocalTimeZone().At(now).offset;
}

class CrateTokenizer final : public Tokenizer {
 public:
  CrateTokenizer(TokenizerSpec spec, uint32_t vocab, Vocabulary vocabulary)
      : spec_(std::move(spec)), vocab_(vocab), vocabulary_(std::move(vocabulary)) {}

  absl::StatusOr<std::vector<TokenId>> Encode(absl::string_view text) const override {
    folio_tok_ids ids{};
    folio_tok_bytes error{};
    if (folio_tok_encode(vocabulary_.get(), View(text), &ids, &error) != 0) {
      return InvalidArgument("cannot be tokenized", error);
    }
    std::vector<TokenId> tokens;
    tokens.reserve(ids.size + 1);
    if (spec_.add_bos && (ids.size == 0 || ids.data[0] != spec_.bos_id)) {
      tokens.emplace_back(spec_.bos_id);
    }
    for (size_t i = 0; i < ids.size; ++i) tokens.emplace_back(ids.data[i]);
    folio_tok_free_ids(ids);
    return tokens;
  }

  absl::StatusOr<std::string> RenderChat(absl::Span<const Message> messages) const override {
    if (!has_chat_template()) {
      return absl::FailedPreconditionError("the model has no chat template");
    }
    auto list = nlohmann::ordered_json::array();
    for (size_t i = 0; i < messages.size(); ++i) {
      for (const std::string* text : {&messages[i].role, &messages[i].content}) {
        if (const auto bad = FirstInvalidUtf8(*text)) {
          return absl::InvalidArgumentError(
              absl::StrCat("messages[", i, "] is not UTF-8 (byte ", *bad, ")"));
        }
      }
      list.push_back({{"role", messages[i].role}, {"content", messages[i].content}});
    }
    const std::string json = list.dump();
    const folio_tok_chat chat = {View(spec_.chat_template), View(json), View(spec_.bos_token),
                                 View(spec_.eos_token), WallClockSeconds()};
    folio_tok_bytes text{};
    folio_tok_bytes error{};
    if (folio_tok_render(&chat, &text, &error) != 0) {
      return InvalidArgument("chat template", error);
    }
    return Take(text);
  }

  absl::StatusOr<std::string> TokenBytes(TokenId id) const override {
    if (id.value() >= vocab_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", id.value(), " is outside the model's vocabulary of ", vocab_, " tokens"));
    }
    const folio_tok_view bytes = folio_tok_token(vocabulary_.get(), id.value());
    if (bytes.size == 0) return std::string();
    return std::string(reinterpret_cast<const char*>(bytes.data), bytes.size);
  }

  bool IsSpecial(TokenId id) const override {
    return folio_tok_is_special(vocabulary_.get(), id.value()) != 0;
  }
  bool IsEos(TokenId id) const override {
    return std::find(spec_.eos_ids.begin(), spec_.eos_ids.end(), id.value()) != spec_.eos_ids.end();
  }
  const std::vector<uint32_t>& eos_ids() const override { return spec_.eos_ids; }
  bool has_chat_template() const override { return !spec_.chat_template.empty(); }
  uint32_t vocab_size() const override { return vocab_; }

 private:
  TokenizerSpec spec_;  // without tokenizer_json
  uint32_t vocab_;
  Vocabulary vocabulary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerSpec& spec,
                                                             uint32_t vocab) {
  folio_tok_vocabulary* raw = nullptr;
  folio_tok_bytes error{};
  if (folio_tok_create(View(spec.tokenizer_json), &raw, &error) != 0) {
    return InvalidArgument("tokenizer.json", error);
  }
  Vocabulary vocabulary(raw);
  const uint32_t size = folio_tok_size(raw);
  if (size == 0) return absl::InvalidArgumentError("tokenizer.json has no tokens");
  if (size > vocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary mismatch: the tokenizer has ids up to ", size - 1, " (", size,
                     " tokens), the model has ", vocab, " tokens"));
  }
  for (const uint32_t id : spec.eos_ids) {
    if (id >= vocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          "eos token id ", id, " is outside the model's vocabulary of ", vocab, " tokens"));
    }
  }
  if (spec.add_bos && spec.bos_id >= vocab) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bos token id ", spec.bos_id, " is outside the model's vocabulary of ", vocab, " tokens"));
  }
  TokenizerSpec rest;
  rest.chat_template = spec.chat_template;
  rest.bos_token = spec.bos_token;
  rest.eos_token = spec.eos_token;
  rest.eos_ids = spec.eos_ids;
  rest.add_bos = spec.add_bos;
  rest.bos_id = spec.bos_id;
  return std::make_unique<CrateTokenizer>(std::move(rest), vocab, std::move(vocabulary));
}

}  // namespace folio::model
