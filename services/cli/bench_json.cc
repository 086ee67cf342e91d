// The results of folioctl bench as JSON.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "services/cli/bench_report.h"
#include "services/cli/format.h"
#include "services/client/message_json.h"
#include "services/runtime/version.h"

namespace folio::cli {
namespace {

using Json = nlohmann::ordered_json;
using load::Histogram;
using load::Tally;

Json Times(const Histogram& times) {
  Json json = {{"count", times.count()}};
  if (times.count() == 0) return json;
  json["mean"] = 1e3 * times.mean();
  json["p50"] = 1e3 * times.Percentile(0.5);
  json["p90"] = 1e3 * times.Percentile(0.9);
  json["p99"] = 1e3 * times.Percentile(0.99);
  json["max"] = 1e3 * times.max();
  return json;
}

Json Measures(const Tally& tally) {
  Json failures = Json::object();
  for (const auto& [code, failure] : tally.failures) {
    failures[absl::StatusCodeToString(code)] = {{"count", failure.count}, {"first", failure.first}};
  }
  return {{"answered", tally.answered},
          {"failed", tally.failed()},
          {"failures", failures},
          {"cut", tally.cut},
          {"waited", tally.waited},
          {"resumed", tally.resumed},
          {"prompt_tokens", tally.prompt_tokens},
          {"output_tokens", tally.output_tokens},
          {"ttft_ms", Times(tally.first)},
          {"itl_ms", Times(tally.gaps)},
          {"tpot_ms", Times(tally.per_token)},
          {"e2e_ms", Times(tally.total)},
          {"late_ms", Times(tally.late)}};
}

Json Settings(const BenchPlan& plan) {
  Json json = Json::object();
  if (plan.run.clients > 0) {
    json["concurrency"] = plan.run.clients;
  } else {
    json["request_rate"] = plan.run.rate;
    json["burstiness"] = plan.run.burstiness;
  }
  const bool endless = plan.run.requests == std::numeric_limits<uint64_t>::max();
  json["requests"] = endless ? Json() : Json(plan.run.requests);
  const bool timed = plan.run.duration < absl::InfiniteDuration();
  json["duration_s"] = timed ? Json(absl::ToDoubleSeconds(plan.run.duration)) : Json();
  json["warmup"] = plan.warmup;
  json["seed"] = plan.requests.seed;
  json["prompt_tokens"] = plan.requests.prompt.text();
  json["output_tokens"] = plan.requests.output.text();
  json["stop_at_eos"] = plan.requests.stop_at_eos;
  json["sampling"] = Json::parse(client::MessageJson(plan.requests.sampling));
  json["goodput"] = plan.run.goals.text();
  json["resume_s"] = absl::ToDoubleSeconds(plan.run.resume);
  json["connections"] = plan.connections;
  json["policies"] = Json::array();
  for (const load::Choice& choice : plan.requests.mix) {
    json["policies"].push_back({{"policy", choice.name},
                                {"weight", choice.weight},
                                {"cache", Json::parse(client::MessageJson(choice.cache))}});
  }
  return json;
}

Json Rate(uint64_t amount, double seconds) {
  return seconds > 0 ? Json(static_cast<double>(amount) / seconds) : Json(0);
}

Json Results(const BenchReport& report) {
  const load::RunResult& result = report.result;
  const Tally& all = result.all;
  Json json = Measures(all);
  json["interrupted"] = report.interrupted;
  json["sent"] = result.sent;
  json["most_running"] = result.most_running;
  json["duration_s"] = result.seconds;
  json["answers_per_s"] = Rate(all.answered, result.seconds);
  json["prompt_tokens_per_s"] = Rate(all.prompt_tokens, result.seconds);
  json["output_tokens_per_s"] = Rate(all.output_tokens, result.seconds);
  json["all_decoding"] = {{"duration_s", result.full_seconds},
                          {"output_tokens", result.full_tokens},
                          {"output_tokens_per_s", Rate(result.full_tokens, result.full_seconds)}};
  if (!report.plan.run.goals.empty()) {
    json["goodput"] = {{"requests", all.good},
                       {"share", Rate(all.good, static_cast<double>(all.counted()))},
                       {"requests_per_s", Rate(all.good, result.seconds)}};
  }
  json["by_policy"] = Json::array();
  for (size_t i = 0; i < result.by_choice.size(); ++i) {
    Json one = {{"policy", report.plan.requests.mix[i].name}};
    one.update(Measures(result.by_choice[i]));
    json["by_policy"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

std::string BenchJson(const BenchReport& report) {
  const Json json = {{"folioctl", BuildDescription()},
                     {"date", report.date},
                     {"workers", report.addresses},
                     {"model", Json::parse(client::MessageJson(report.model))},
                     {"settings", Settings(report.plan)},
                     {"results", Results(report)}};
  return absl::StrCat(json.dump(1, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace folio::cli
