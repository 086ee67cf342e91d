#include "services/client/policy_text.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace folio::client {
namespace {

namespace v1 = folio::v1;

constexpr absl::string_view kNames =
    "full, paged_eviction, streaming_llm, inverse_key_norm, key_diff, snap_kv, random or kv_crush";
constexpr std::array<std::pair<absl::string_view, v1::CrushAnchor>, 5> kAnchors = {{
    {"mean", v1::CRUSH_ANCHOR_MEAN},
    {"alternating", v1::CRUSH_ANCHOR_ALTERNATING},
    {"zeros", v1::CRUSH_ANCHOR_ZEROS},
    {"ones", v1::CRUSH_ANCHOR_ONES},
    {"random", v1::CRUSH_ANCHOR_RANDOM},
}};

template <typename... Parts>
absl::Status Refuse(absl::string_view text, const Parts&... why) {
  return absl::InvalidArgumentError(absl::StrCat("policy \"", text, "\": ", why...));
}

// What may be a policy by itself or the base of another.
template <typename Message>
bool SetBase(absl::string_view name, Message* out) {
  if (name == "paged_eviction") {
    out->mutable_paged_eviction();
  } else if (name == "inverse_key_norm") {
    out->mutable_inverse_key_norm();
  } else if (name == "key_diff") {
    out->mutable_key_diff();
  } else if (name == "snap_kv") {
    out->mutable_snap_kv();
  } else {
    return false;
  }
  return true;
}

template <typename Message>
std::string BaseName(const Message& policy) {
  if (policy.has_inverse_key_norm()) return "inverse_key_norm";
  if (policy.has_key_diff()) return "key_diff";
  if (policy.has_snap_kv()) return "snap_kv";
  return "paged_eviction";
}

bool SetName(absl::string_view name, v1::Policy* policy) {
  if (name == "full") {
    policy->mutable_full();
  } else if (name == "streaming_llm") {
    policy->mutable_streaming_llm();
  } else if (name == "random") {
    policy->mutable_random();
  } else if (name == "kv_crush") {
    policy->mutable_kv_crush();
  } else {
    return SetBase(name, policy);
  }
  return true;
}

bool SetAnchor(absl::string_view value, v1::KvCrushPolicy* crush) {
  for (const auto& [name, anchor] : kAnchors) {
    if (name == value) crush->set_anchor(anchor);
  }
  return crush->anchor() != v1::CRUSH_ANCHOR_UNSPECIFIED;
}

bool SetWindow(absl::string_view value, v1::SnapKvPolicy* snap) {
  uint32_t window = 0;
  if (!absl::SimpleAtoi(value, &window)) return false;
  snap->set_window(window);
  return true;
}

// "key=value" of the policy's own; false when it has no such parameter or the value is none.
bool SetParameter(absl::string_view key, absl::string_view value, v1::Policy* policy) {
  uint64_t seed = 0;
  float share = 0;
  if (policy->has_snap_kv() && key == "window") {
    return SetWindow(value, policy->mutable_snap_kv());
  }
  if (policy->has_random() && key == "seed" && absl::SimpleAtoi(value, &seed)) {
    policy->mutable_random()->set_seed(seed);
    return true;
  }
  if (!policy->has_kv_crush()) return false;
  v1::KvCrushPolicy* crush = policy->mutable_kv_crush();
  if (key == "window" && crush->has_snap_kv()) return SetWindow(value, crush->mutable_snap_kv());
  if (key == "anchor") return SetAnchor(value, crush);
  if (key == "decode" && (value == "base" || value == "crush")) {
    crush->set_prefill_only(value == "base");
    return true;
  }
  if (key == "seed" && absl::SimpleAtoi(value, &seed)) {
    crush->set_seed(seed);
    return true;
  }
  if (key == "share" && absl::SimpleAtof(value, &share)) {
    crush->set_share(share);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<v1::Policy> ParsePolicy(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  v1::Policy policy;
  if (!SetName(parts.first, &policy)) return Refuse(text, "no such policy; use ", kNames);
  if (parts.second.empty()) return policy;
  for (const absl::string_view item : absl::StrSplit(parts.second, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const bool base = item.find('=') == absl::string_view::npos;
    if (base && policy.has_kv_crush() && SetBase(item, policy.mutable_kv_crush())) continue;
    if (!base && SetParameter(pair.first, pair.second, &policy)) continue;
    return Refuse(text, "\"", item, "\" is no parameter of ", parts.first,
                  "; parameters are window=N (snap_kv), seed=N (random, kv_crush), and for "
                  "kv_crush a base, share=0.25, decode=base or crush, and anchor=mean, "
                  "alternating, zeros, ones or "
                  "random");
  }
  return policy;
}

std::string PolicyText(const v1::Policy& policy) {
  std::vector<std::string> parameters;
  const auto window = [&](const v1::SnapKvPolicy& snap) {
    if (snap.has_window()) parameters.push_back(absl::StrCat("window=", snap.window()));
  };
  std::string name;
  switch (policy.kind_case()) {
    case v1::Policy::kFull:
    case v1::Policy::KIND_NOT_SET:
      return "full";
    case v1::Policy::kStreamingLlm:
      return "streaming_llm";
    case v1::Policy::kRandom:
      name = "random";
      if (policy.random().has_seed()) {
        parameters.push_back(absl::StrCat("seed=", policy.random().seed()));
      }
      break;
    case v1::Policy::kKvCrush: {
      const v1::KvCrushPolicy& crush = policy.kv_crush();
      name = "kv_crush";
      parameters.push_back(BaseName(crush));
      if (crush.has_snap_kv()) window(crush.snap_kv());
      if (crush.has_share()) parameters.push_back(absl::StrCat("share=", crush.share()));
      for (const auto& [word, anchor] : kAnchors) {
        if (anchor == crush.anchor()) parameters.push_back(absl::StrCat("anchor=", word));
      }
      if (crush.prefill_only()) parameters.emplace_back("decode=base");
      if (crush.seed() != 0) parameters.push_back(absl::StrCat("seed=", crush.seed()));
      break;
    }
    default:
      name = BaseName(policy);
      if (policy.has_snap_kv()) window(policy.snap_kv());
  }
  if (parameters.empty()) return name;
  return absl::StrCat(name, ":", absl::StrJoin(parameters, ","));
}

}  // namespace folio::client
