#include "services/model/tokenizer/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/model/tokenizer/chat_values.h"
#include "services/model/tokenizer/ffi_values.h"
#include "services/model/tokenizer/grammar_compiler.h"
#include "services/model/tokenizer/special_texts.h"

namespace folio::model {
namespace {

absl::Status InvalidArgument(absl::string_view what, folio_tok_bytes error) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", Take(error)));
}

struct FreeVocabulary {
  void operator()(folio_tok_vocabulary* vocabulary) const { folio_tok_free(vocabulary); }
};
using Vocabulary = std::unique_ptr<folio_tok_vocabulary, FreeVocabulary>;

struct FreeTemplate {
  void operator()(folio_tok_template* chat) const { folio_tok_free_template(chat); }
};
using Template = std::unique_ptr<folio_tok_template, FreeTemplate>;

// A template with an error leaves the rest of the tokenizer usable, so the error is kept.
absl::StatusOr<Template> Compile(const TokenizerSpec& spec) {
  if (spec.chat_template.empty()) {
    return absl::FailedPreconditionError("the model has no chat template");
  }
  folio_tok_template* chat = nullptr;
  folio_tok_bytes error{};
  if (folio_tok_compile(View(spec.chat_template), View(spec.bos_token), View(spec.eos_token), &chat,
                        &error) != 0) {
    return InvalidArgument("chat template", error);
  }
  return Template(chat);
}

// Seconds since 1970 in local time, as a clock on the wall counts them.
int64_t WallClockSeconds() {
  const absl::Time now = absl::Now();
  return absl::ToUnixSeconds(now) + absl::LocalTimeZone().At(now).offset;
}

std::vector<std::string> SpecialsOf(const folio_tok_vocabulary* vocabulary) {
  std::vector<std::string> texts;
  for (uint32_t id = 0; id < folio_tok_size(vocabulary); ++id) {
    if (folio_tok_is_special(vocabulary, id) == 0) continue;
    const folio_tok_view text = folio_tok_token(vocabulary, id);
    texts.emplace_back(reinterpret_cast<const char*>(text.data), text.size);
  }
  return texts;
}

class CrateTokenizer final : public Tokenizer {
 public:
  CrateTokenizer(TokenizerSpec spec, uint32_t vocab, Vocabulary vocabulary)
      : spec_(std::move(spec)),
        vocab_(vocab),
        vocabulary_(std::move(vocabulary)),
        specials_(SpecialsOf(vocabulary_.get())),
        grammars_(vocabulary_.get(), spec_.eos_ids, vocab),
        template_(Compile(spec_)) {}

  absl::StatusOr<std::vector<TokenId>> Encode(absl::string_view text) const override {
    return EncodeChat({std::string(text), {}});
  }

  absl::StatusOr<std::vector<TokenId>> EncodeChat(const ChatText& chat) const override {
    std::vector<TokenId> tokens;
    const absl::string_view text = chat.text;
    size_t begin = 0;
    for (size_t part = 0; part <= chat.cuts.size(); ++part) {
      const size_t end = part < chat.cuts.size() ? chat.cuts[part] : text.size();
      // The space that is put in front of a text comes before its first part alone.
      const auto encode = part == 0 ? folio_tok_encode : folio_tok_encode_rest;
      absl::Status status = Append(encode, text.substr(begin, end - begin), tokens);
      if (!status.ok()) return status;
      begin = end;
    }
    if (spec_.add_bos && (tokens.empty() || tokens[0] != TokenId(spec_.bos_id))) {
      tokens.insert(tokens.begin(), TokenId(spec_.bos_id));
    }
    return tokens;
  }

  absl::StatusOr<ChatText> RenderChat(absl::Span<const Message> messages,
                                      const ChatOptions& options) const override {
    if (!template_.ok()) return template_.status();
    absl::StatusOr<nlohmann::ordered_json> values = ChatValues(messages, options);
    if (!values.ok()) return values.status();
    absl::StatusOr<std::string> mark = MarkFor(TextsOf(*values));
    if (!mark.ok()) return mark.status();
    if (!mark->empty()) {
      values = WithTexts(*values,
                         [&](const std::string& text) { return specials_.Marked(text, *mark); });
    }
    const std::string json = values->dump();
    folio_tok_bytes text{};
    folio_tok_bytes error{};
    if (folio_tok_render(template_->get(), View(json), View(*mark), WallClockSeconds(), &text,
                         &error) != 0) {
      return InvalidArgument("chat template", error);
    }
    ChatText chat{Take(text), {}};
    if (!mark->empty()) chat.cuts = RemoveMarks(*mark, chat.text);
    return chat;
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

  bool BeginsWithAddedSpace(absl::Span<const TokenId> tokens) const override {
    return spec_.add_bos && tokens.size() > 1 && tokens[0] == TokenId(spec_.bos_id) &&
           folio_tok_drops_space(vocabulary_.get()) != 0 &&
           absl::StartsWith(TokenBytes(tokens[1]).value_or(""), " ");
  }

  absl::StatusOr<std::shared_ptr<const Grammar>> CompileGrammar(
      GrammarKind kind, absl::string_view text) const override {
    return grammars_.Compile(kind, text);
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
  // Appends the tokens of `text`.
  absl::Status Append(decltype(folio_tok_encode)* encode, absl::string_view text,
                      std::vector<TokenId>& tokens) const {
    folio_tok_ids ids{};
    folio_tok_bytes error{};
    if (encode(vocabulary_.get(), View(text), &ids, &error) != 0) {
      return InvalidArgument("cannot be tokenized", error);
    }
    tokens.reserve(tokens.size() + ids.size + 1);
    for (size_t i = 0; i < ids.size; ++i) tokens.emplace_back(ids.data[i]);
    folio_tok_free_ids(ids);
    return absl::OkStatus();
  }

  // The mark for the special tokens that are written in a chat's texts, or an empty text if there
  // are none.
  absl::StatusOr<std::string> MarkFor(std::vector<absl::string_view> texts) const {
    const auto special = [&](absl::string_view text) { return specials_.In(text); };
    if (std::none_of(texts.begin(), texts.end(), special)) return std::string();
    texts.push_back(spec_.chat_template);
    std::optional<std::string> mark = UnusedMark(texts);
    if (mark.has_value()) return *std::move(mark);
    return absl::InvalidArgumentError(
        "messages contain special tokens and all characters from U+E000 to U+F8FF");
  }

  TokenizerSpec spec_;  // without tokenizer_json
  uint32_t vocab_;
  Vocabulary vocabulary_;
  SpecialTexts specials_;
  mutable GrammarCompiler grammars_;
  absl::StatusOr<Template> template_;
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
