#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/model/source/hf_files.h"
#include "services/model/source/json_fields.h"
#include "services/model/source/mapped_file.h"
#include "services/model/tokenizer/charsmap.h"
#include "services/runtime/logging.h"

namespace folio::model {
namespace {

using nlohmann::json;

struct AddedToken {
  uint64_t id = 0;
  std::string text;
};

// The texts and ids of the tokens of a parsed tokenizer.json. Added tokens whose ids are beyond the
// model's rows are left out, because the model cannot be given them.
class Vocabulary {
 public:
  // `rows` are those of the model. INVALID_ARGUMENT when a token of the tokenizer's own model, also
  // one that is added again, is beyond them.
  static absl::StatusOr<Vocabulary> Read(const json& tokenizer, uint32_t rows,
                                         const std::string& where) {
    const auto wrong = [&where](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
    };
    Vocabulary vocabulary;
    const auto model = tokenizer.find("model");
    if (model == tokenizer.end() || !model->is_object()) return wrong("model: missing");
    const auto tokens = model->find("vocab");
    if (tokens == model->end() || !tokens->is_structured() || tokens->empty()) {
      return wrong("model.vocab: not an object of ids or a list of pieces");
    }
    const char* problem =
        tokens->is_array() ? vocabulary.ReadPieces(*tokens) : vocabulary.ReadIds(*tokens);
    if (problem != nullptr) return wrong(problem);
    uint64_t largest = 0;
    for (const auto& [text, id] : vocabulary.ids_) largest = std::max(largest, id);
    absl::Status status = vocabulary.ReadAdded(tokenizer, rows, where, largest);
    if (!status.ok()) return status;
    if (largest < rows) return vocabulary;
    return wrong(
        absl::StrCat("a vocabulary with token ", largest, ", but the model has ", rows, " tokens"));
  }

  std::optional<uint32_t> Find(const std::string& text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return std::nullopt;
    return static_cast<uint32_t>(found->second);
  }
  const std::vector<AddedToken>& left_out() const { return left_out_; }
  bool LeftOut(const std::string& text) const {
    return std::any_of(left_out_.begin(), left_out_.end(),
                       [&text](const AddedToken& token) { return token.text == text; });
  }

 private:
  // Both give null, or what is wrong.
  const char* ReadIds(const json& tokens) {
    for (const auto& [text, id] : tokens.items()) {
      if (!id.is_number_unsigned()) return "model.vocab: an id is not a natural number";
      ids_[text] = id.get<uint64_t>();
    }
    return nullptr;
  }

  // A unigram model has a list, and a piece's id is its place.
  const char* ReadPieces(const json& pieces) {
    for (uint64_t id = 0; id < pieces.size(); ++id) {
      const json& piece = pieces[id];
      if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() ||
          !piece[1].is_number()) {
        return "model.vocab: a piece is not a text with a score";
      }
      ids_[piece[0].get<std::string>()] = id;
    }
    return nullptr;
  }

  // `largest` grows to the largest id that the model needs to have.
  absl::Status ReadAdded(const json& tokenizer, uint32_t rows, const std::string& where,
                         uint64_t& largest) {
    const auto added = tokenizer.find("added_tokens");
    if (added == tokenizer.end()) return absl::OkStatus();
    const auto wrong = [&where](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": added_tokens: ", what));
    };
    if (!added->is_array()) return wrong("not a list");
    for (const json& token : *added) {
      const json id = token.is_object() ? token.value("id", json()) : json();
      const json text = token.is_object() ? token.value("content", json()) : json();
      if (!id.is_number_unsigned() || !text.is_string()) {
        return wrong("an entry without id and content");
      }
      AddedToken read{id.get<uint64_t>(), text.get<std::string>()};
      if (read.id >= rows && !ids_.contains(read.text)) {
        left_out_.push_back(std::move(read));
        continue;
      }
      largest = std::max(largest, read.id);
      ids_[read.text] = read.id;
    }
    return absl::OkStatus();
  }

  absl::flat_hash_map<std::string, uint64_t> ids_;
  std::vector<AddedToken> left_out_;
};

// The text of a tokenizer.json with the added tokens that have an id below `rows`.
std::string WithoutTokensFrom(uint32_t rows, json tokenizer) {
  json kept = json::array();
  for (json& token : tokenizer["added_tokens"]) {
    if (token["id"].get<uint64_t>() < rows) kept.push_back(std::move(token));
  }
  tokenizer["added_tokens"] = std::move(kept);
  return tokenizer.dump();
}

// As ReadJsonObject, but a missing file gives an empty object.
absl::StatusOr<json> ReadOptional(const std::string& path) {
  absl::StatusOr<json> object = ReadJsonObject(path);
  if (absl::IsNotFound(object.status())) return json::object();
  return object;
}

// A special token is written as its text or as an object with it.
std::string TokenText(JsonFields& fields, const char* key) {
  const json* value = fields.Find(key);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_object() && value->contains("content") && value->at("content").is_string()) {
    return value->at("content").get<std::string>();
  }
  fields.Fail(key, "neither a string nor an object with content");
  return "";
}

// One template, or a list of named ones of which "default" counts.
std::string ConfigTemplate(JsonFields& fields) {
  const json* value = fields.Find("chat_template");
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_array()) {
    for (const json& each : *value) {
      if (each.is_object() && each.value("name", json()) == "default" &&
          each.value("template", json()).is_string()) {
        return each.at("template").get<std::string>();
      }
    }
  }
  fields.Fail("chat_template", "neither a string nor a list with a default template");
  return "";
}

// Does the post-processor put `bos` in front of a text?
bool PutsInFront(const json& processor, const std::string& bos) {
  if (!processor.is_object()) return false;
  if (const auto steps = processor.find("processors");
      steps != processor.end() && steps->is_array()) {
    return std::any_of(steps->begin(), steps->end(),
                       [&bos](const json& step) { return PutsInFront(step, bos); });
  }
  const auto single = processor.find("single");
  if (single == processor.end() || !single->is_array() || single->empty()) return false;
  const json& first = single->front();
  return first.is_object() && first.contains("SpecialToken") &&
         first.at("SpecialToken").is_object() &&
         first.at("SpecialToken").value("id", json()) == bos;
}

// Whether all tables of characters in a normaliser can be read.
bool HasGoodTables(const json& normalizer) {
  if (!normalizer.is_object()) return true;
  if (const auto steps = normalizer.find("normalizers");
      steps != normalizer.end() && steps->is_array()) {
    return std::all_of(steps->begin(), steps->end(), HasGoodTables);
  }
  const auto table = normalizer.find("precompiled_charsmap");
  if (table == normalizer.end() || !table->is_string()) return true;
  std::string bytes;
  return absl::Base64Unescape(table->get<std::string>(), &bytes) && IsCharsmap(bytes);
}

void AddUnique(uint32_t id, std::vector<uint32_t>& ids) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

absl::Status ReadTokenizerConfig(const std::string& directory, const json& tokenizer,
                                 const Vocabulary& vocabulary, TokenizerSpec& spec) {
  const std::string where = directory + "/tokenizer_config.json";
  const absl::StatusOr<json> config = ReadOptional(where);
  if (!config.ok()) return config.status();
  JsonFields fields(*config, where);
  spec.bos_token = TokenText(fields, "bos_token");
  spec.eos_token = TokenText(fields, "eos_token");
  spec.chat_template = ConfigTemplate(fields);
  const auto post = tokenizer.find("post_processor");
  const bool in_front =
      !spec.bos_token.empty() && post != tokenizer.end() && PutsInFront(*post, spec.bos_token);
  spec.add_bos = fields.Bool("add_bos_token", in_front);
  if (!fields.status().ok()) return fields.status();
  for (const auto& [key, text] :
       {std::pair("bos_token", &spec.bos_token), std::pair("eos_token", &spec.eos_token)}) {
    if (text->empty() || vocabulary.Find(*text)) continue;
    const bool left_out = vocabulary.LeftOut(*text);
    fields.Fail(key, absl::StrCat("\"", *text, "\" is not in tokenizer.json",
                                  left_out ? " with an id that the model has" : ""));
  }
  if (!fields.status().ok()) return fields.status();
  if (spec.add_bos && spec.bos_token.empty()) {
    fields.Fail("add_bos_token", "true, but there is no bos_token");
  }
  spec.bos_id = vocabulary.Find(spec.bos_token).value_or(0);

  const absl::StatusOr<std::shared_ptr<const MappedFile>> jinja =
      MappedFile::Open(directory + "/chat_template.jinja");
  if (jinja.ok()) {
    spec.chat_template = std::string((*jinja)->text());
  } else if (!absl::IsNotFound(jinja.status())) {
    return jinja.status();
  }
  return fields.status();
}

absl::Status ReadEos(const std::string& directory, TokenizerSpec& spec) {
  for (const char* name : {"/generation_config.json", "/config.json"}) {
    const absl::StatusOr<json> object = ReadOptional(directory + name);
    if (!object.ok()) return object.status();
    JsonFields fields(*object, directory + name);
    for (const uint32_t id : fields.UintOrList("eos_token_id")) AddUnique(id, spec.eos_ids);
    if (!fields.status().ok()) return fields.status();
    if (!spec.eos_ids.empty()) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const std::string& directory, uint32_t vocab) {
  const std::string where = directory + "/tokenizer.json";
  const absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(where);
  if (!file.ok()) return file.status();
  const absl::StatusOr<json> tokenizer = ParseJsonObject((*file)->text(), where);
  if (!tokenizer.ok()) return tokenizer.status();
  const absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Read(*tokenizer, vocab, where);
  if (!vocabulary.ok()) return vocabulary.status();
  if (!HasGoodTables(tokenizer->value("normalizer", json()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": normalizer: precompiled_charsmap is not a table of characters"));
  }
  TokenizerSpec spec;
  if (const auto& left_out = vocabulary->left_out(); left_out.empty()) {
    spec.tokenizer_json = std::string((*file)->text());
  } else {
    log::Warning("added tokens have ids that the model lacks, their texts are ordinary text",
                 {{"file", where},
                  {"tokens", left_out.size()},
                  {"first", left_out.front().text},
                  {"first_id", left_out.front().id},
                  {"model_tokens", vocab}});
    spec.tokenizer_json = WithoutTokensFrom(vocab, *tokenizer);
  }
  absl::Status status = ReadTokenizerConfig(directory, *tokenizer, *vocabulary, spec);
  if (!status.ok()) return status;
  if (absl::Status eos = ReadEos(directory, spec); !eos.ok()) return eos;
  if (const auto own = vocabulary->Find(spec.eos_token); own && !spec.eos_token.empty()) {
    AddUnique(*own, spec.eos_ids);
  }
  return spec;
}

}  // namespace folio::model
