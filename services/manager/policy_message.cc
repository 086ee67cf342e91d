#include "services/manager/policy_message.h"

#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/base/invalid_argument.h"

namespace folio::manager {
namespace {

// Row is one policy of a message `Parent`, which has a oneof of policies, and of the variant of
// their specifications.
template <typename Parent, typename Variant>
struct Row {
  int number;  // of the field
  absl::StatusOr<Variant> (*read)(const Parent& from);
  void (*write)(const Variant& spec, Parent* to);
};

// A policy without parameters needs neither of these; the others have overloads below.
template <typename Message, typename Spec>
absl::Status Read(const Message&, Spec*) {
  return absl::OkStatus();
}
template <typename Spec, typename Message>
void Write(const Spec&, Message*) {}

absl::Status Read(const v1::SnapKvPolicy& from, policy::SnapKvSpec* spec) {
  if (from.has_window()) spec->window = from.window();
  if (from.has_pool()) spec->pool = from.pool();
  return absl::OkStatus();
}
void Write(const policy::SnapKvSpec& spec, v1::SnapKvPolicy* to) {
  to->set_window(spec.window);
  to->set_pool(spec.pool);
}

absl::Status Read(const v1::QueryDiffPolicy& from, policy::QueryDiffSpec* spec) {
  if (from.has_share()) spec->options.share = from.share();
  if (from.has_window()) spec->options.window = from.window();
  if (from.has_pool()) spec->options.pool = from.pool();
  if (from.has_neighbours()) spec->options.neighbours = from.neighbours();
  if (from.has_judges_from()) spec->options.judges.from = from.judges_from();
  if (from.has_judges_to()) spec->options.judges.to = from.judges_to();
  return absl::OkStatus();
}
void Write(const policy::QueryDiffSpec& spec, v1::QueryDiffPolicy* to) {
  if (spec.options.share) to->set_share(*spec.options.share);
  to->set_window(spec.options.window);
  to->set_pool(spec.options.pool);
  to->set_neighbours(spec.options.neighbours);
  to->set_judges_from(spec.options.judges.from);
  to->set_judges_to(spec.options.judges.to);
}

absl::Status Read(const v1::RandomPolicy& from, policy::RandomSpec* spec) {
  spec->seed = from.seed();
  return absl::OkStatus();
}
void Write(const policy::RandomSpec& spec, v1::RandomPolicy* to) { to->set_seed(spec.seed); }

absl::Status Read(const v1::KvCrushPolicy& from, policy::KvCrushSpec* spec);
void Write(const policy::KvCrushSpec& spec, v1::KvCrushPolicy* to);

template <typename Spec, auto kGet, auto kSet, typename Parent, typename Variant>
constexpr Row<Parent, Variant> MakeRow(int number) {
  return {
      .number = number,
      .read = [](const Parent& from) -> absl::StatusOr<Variant> {
        Spec spec;
        if (absl::Status status = Read((from.*kGet)(), &spec); !status.ok()) return status;
        return spec;
      },
      .write = [](const Variant& spec, Parent* to) { Write(std::get<Spec>(spec), (to->*kSet)()); }};
}

using PolicyRow = Row<v1::Policy, policy::PolicySpec>;
template <typename Spec, auto kGet, auto kSet>
constexpr PolicyRow Of(v1::Policy::KindCase kind) {
  return MakeRow<Spec, kGet, kSet, v1::Policy, policy::PolicySpec>(kind);
}

// In the order of PolicySpec.
constexpr PolicyRow kPolicies[] = {
    Of<policy::FullSpec, &v1::Policy::full, &v1::Policy::mutable_full>(v1::Policy::kFull),
    Of<policy::PagedEvictionSpec, &v1::Policy::paged_eviction, &v1::Policy::mutable_paged_eviction>(
        v1::Policy::kPagedEviction),
    Of<policy::StreamingLlmSpec, &v1::Policy::streaming_llm, &v1::Policy::mutable_streaming_llm>(
        v1::Policy::kStreamingLlm),
    Of<policy::InverseKeyNormSpec, &v1::Policy::inverse_key_norm,
       &v1::Policy::mutable_inverse_key_norm>(v1::Policy::kInverseKeyNorm),
    Of<policy::KeyDiffSpec, &v1::Policy::key_diff, &v1::Policy::mutable_key_diff>(
        v1::Policy::kKeyDiff),
    Of<policy::SnapKvSpec, &v1::Policy::snap_kv, &v1::Policy::mutable_snap_kv>(v1::Policy::kSnapKv),
    Of<policy::RandomSpec, &v1::Policy::random, &v1::Policy::mutable_random>(v1::Policy::kRandom),
    Of<policy::KvCrushSpec, &v1::Policy::kv_crush, &v1::Policy::mutable_kv_crush>(
        v1::Policy::kKvCrush),
    Of<policy::QueryDiffSpec, &v1::Policy::query_diff, &v1::Policy::mutable_query_diff>(
        v1::Policy::kQueryDiff),
    Of<policy::ValueNormSpec, &v1::Policy::value_norm, &v1::Policy::mutable_value_norm>(
        v1::Policy::kValueNorm),
};
static_assert(std::size(kPolicies) == std::variant_size_v<policy::PolicySpec>);

using BaseRow = Row<v1::KvCrushPolicy, policy::KvCrushSpec::Base>;
template <typename Spec, auto kGet, auto kSet>
constexpr BaseRow BaseOf(v1::KvCrushPolicy::BaseCase base) {
  return MakeRow<Spec, kGet, kSet, v1::KvCrushPolicy, policy::KvCrushSpec::Base>(base);
}

// In the order of KvCrushSpec::Base.
constexpr BaseRow kBases[] = {
    BaseOf<policy::PagedEvictionSpec, &v1::KvCrushPolicy::paged_eviction,
           &v1::KvCrushPolicy::mutable_paged_eviction>(v1::KvCrushPolicy::kPagedEviction),
    BaseOf<policy::InverseKeyNormSpec, &v1::KvCrushPolicy::inverse_key_norm,
           &v1::KvCrushPolicy::mutable_inverse_key_norm>(v1::KvCrushPolicy::kInverseKeyNorm),
    BaseOf<policy::KeyDiffSpec, &v1::KvCrushPolicy::key_diff, &v1::KvCrushPolicy::mutable_key_diff>(
        v1::KvCrushPolicy::kKeyDiff),
    BaseOf<policy::SnapKvSpec, &v1::KvCrushPolicy::snap_kv, &v1::KvCrushPolicy::mutable_snap_kv>(
        v1::KvCrushPolicy::kSnapKv),
};
static_assert(std::size(kBases) == std::variant_size_v<policy::KvCrushSpec::Base>);

// The protocol's numbers are ours, after an unset one.
static_assert(static_cast<int>(policy::CrushAnchor::kMean) + 1 == v1::CRUSH_ANCHOR_MEAN &&
              static_cast<int>(policy::CrushAnchor::kRandom) + 1 == v1::CRUSH_ANCHOR_RANDOM);

absl::StatusOr<policy::CrushAnchor> AnchorFromProto(v1::CrushAnchor anchor) {
  switch (anchor) {
    case v1::CRUSH_ANCHOR_UNSPECIFIED:
    case v1::CRUSH_ANCHOR_MEAN:
      return policy::CrushAnchor::kMean;
    case v1::CRUSH_ANCHOR_ALTERNATING:
      return policy::CrushAnchor::kAlternating;
    case v1::CRUSH_ANCHOR_ZEROS:
      return policy::CrushAnchor::kZeros;
    case v1::CRUSH_ANCHOR_ONES:
      return policy::CrushAnchor::kOnes;
    case v1::CRUSH_ANCHOR_RANDOM:
      return policy::CrushAnchor::kRandom;
    default:
      return InvalidArgument("cache.policy.kv_crush.anchor: unknown value ",
                             static_cast<int>(anchor),
                             "; use CRUSH_ANCHOR_MEAN, _ALTERNATING, _ZEROS, _ONES or _RANDOM");
  }
}

absl::Status Read(const v1::KvCrushPolicy& from, policy::KvCrushSpec* spec) {
  for (const BaseRow& row : kBases) {
    if (row.number != from.base_case()) continue;  // an unset base keeps the default
    auto base = row.read(from);
    if (!base.ok()) return base.status();
    spec->base = *base;
  }
  if (from.has_share()) spec->options.share = from.share();
  auto anchor = AnchorFromProto(from.anchor());
  if (!anchor.ok()) return anchor.status();
  spec->options.anchor = *anchor;
  spec->options.seed = from.seed();
  spec->options.prefill_only = from.prefill_only();
  return absl::OkStatus();
}

void Write(const policy::KvCrushSpec& spec, v1::KvCrushPolicy* to) {
  kBases[spec.base.index()].write(spec.base, to);
  to->set_share(spec.options.share);
  to->set_anchor(static_cast<v1::CrushAnchor>(static_cast<int>(spec.options.anchor) + 1));
  to->set_seed(spec.options.seed);
  to->set_prefill_only(spec.options.prefill_only);
}

// The policies of this version, as the protocol names them.
std::string PolicyNames() {
  const google::protobuf::OneofDescriptor* kind = v1::Policy::descriptor()->oneof_decl(0);
  std::vector<std::string> names;
  for (int i = 0; i < kind->field_count(); ++i) names.push_back(kind->field(i)->name());
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

}  // namespace

absl::StatusOr<policy::PolicySpec> PolicyFromProto(const v1::Policy& policy,
                                                   uint64_t sampling_seed) {
  if (policy.has_random() && !policy.random().has_seed()) {
    return policy::RandomSpec{sampling_seed};
  }
  for (const PolicyRow& row : kPolicies) {
    if (row.number == policy.kind_case()) return row.read(policy);
  }
  return InvalidArgument("cache.policy: no known kind is set; use ", PolicyNames());
}

v1::Policy PolicyToProto(const policy::PolicySpec& spec) {
  v1::Policy out;
  kPolicies[spec.index()].write(spec, &out);
  return out;
}

}  // namespace folio::manager
