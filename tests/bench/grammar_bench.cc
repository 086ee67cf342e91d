// What it costs to hold an answer to a form, with the vocabulary of a model's file:
//   grammar_bench MODEL.gguf
//
// An answer is followed token by token as the tokenizer splits it, --rounds times. A step waits for
// the mask of each of its sequences, so that the means stand beside the time of a decode step, and
// the highest ones beside the time between two tokens.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/model/source/model_source.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/bench/or_die.h"

ABSL_FLAG(int, rounds, 200, "how often each answer is followed");

namespace folio::bench {
namespace {

using model::GrammarKind;

struct Case {
  const char* name;
  GrammarKind kind;
  const char* text;
  const char* answer;
};
constexpr Case kCases[] = {
    {"schema: a person", GrammarKind::kJsonSchema,
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
         "minimum": 0}, "city": {"enum": ["Ulm", "Berlin", "Paris"]}, "tags": {"type": "array",
         "items": {"type": "string"}}}, "required": ["name", "age", "city", "tags"],
         "additionalProperties": false})",
     R"({"name": "Ada Lovelace, Countess of Lovelace", "age": 36, "city": "Ulm", "tags": )"
     R"(["mathematics", "notes on the engine", "poetical science"]})"},
    {"schema: any JSON", GrammarKind::kJsonSchema, "{}",
     R"({"answer": [1, 2.5, true, null, {"text": "The quick brown fox jumps over the lazy dog."}]})"},
    {"regex: an address", GrammarKind::kRegex, "[a-z]+(\\.[a-z]+)*@[a-z]+\\.(com|org)",
     "ada.lovelace@engine.org"},
    {"grammar: sums", GrammarKind::kLark,
     "start: sum\nsum: term | sum \"+\" term\nterm: /[0-9]+/ | \"(\" sum \")\"\n",
     "(12+(345+6)+78)+9+(10+11)"},
};

double Micros(absl::Duration time) { return absl::ToDoubleMicroseconds(time); }

void Measure(const model::Tokenizer& tokenizer, const Case& one) {
  const absl::Time begin = absl::Now();
  const auto grammar = OrDie(tokenizer.CompileGrammar(one.kind, one.text));
  const double compiled = Micros(absl::Now() - begin);
  const std::vector<TokenId> tokens = OrDie(tokenizer.Encode(one.answer));
  std::vector<uint32_t> mask(model::GrammarMaskWords(tokenizer.vocab_size()));
  std::vector<double> masks;
  double starts = 0;
  double accepts = 0;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    absl::Time at = absl::Now();
    const auto state = OrDie(grammar->Start());
    starts += Micros(absl::Now() - at);
    for (const TokenId token : tokens) {
      at = absl::Now();
      OrDie(state->Mask(absl::MakeSpan(mask)));
      masks.push_back(Micros(absl::Now() - at));
      at = absl::Now();
      OrDie(state->Accept(token));
      accepts += Micros(absl::Now() - at);
    }
  }
  double sum = 0;
  for (const double mask_time : masks) sum += mask_time;
  const auto count = static_cast<double>(masks.size());
  std::sort(masks.begin(), masks.end());
  std::printf("%-18s %9.0f %8.0f %7zu %10.1f %8.1f %8.1f %10.1f\n", one.name, compiled,
              starts / absl::GetFlag(FLAGS_rounds), tokens.size(), sum / count,
              masks[masks.size() * 99 / 100], masks.back(), accepts / count);
}

int Main(const std::string& path) {
  const auto source = OrDie(model::OpenModel(path));
  const auto tokenizer =
      OrDie(model::Tokenizer::Create(source->tokenizer(), source->config().vocab));
  const absl::Time begin = absl::Now();
  OrDie(tokenizer->CompileGrammar(GrammarKind::kRegex, "a").status());
  std::printf("%u tokens, their tree in %.0f ms. Times in us:\n", tokenizer->vocab_size(),
              Micros(absl::Now() - begin) / 1000);
  std::printf("%-18s %9s %8s %7s %10s %8s %8s %10s\n", "form", "compile", "start", "tokens",
              "mask mean", "99th", "highest", "accept");
  for (const Case& one : kCases) Measure(*tokenizer, one);
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("grammar_bench MODEL: what it costs to hold an answer to a form");
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  if (arguments.size() != 2) {
    std::fprintf(stderr, "grammar_bench: give the file of a model\n");
    return 2;
  }
  return folio::bench::Main(arguments[1]);
}
