#include "services/cache/sequence_checks.h"

#include "absl/strings/str_cat.h"
#include "services/cache/sequence_invariants.h"

namespace folio::cache {
namespace {

// The record must hold the ids of the tokens in the cache, and may hold the one sampled last.
absl::Status CheckTokens(const SequenceRecord& record, const CommitTokens& request) {
  const uint64_t length = request.logical_length.value();
  const uint64_t known = record.tokens.size() + request.sampled.size();
  // A sequence that was parked is computed again up to the tokens that the record has.
  if (request.sampled.empty() && record.tokens.size() > length) return absl::OkStatus();
  if (known == length || known == length + 1) return absl::OkStatus();
  return Refuse(record,
                absl::StrCat("sampled tokens bring the record to ", known, " ids; logical_length ",
                             length, " needs ", length, " or ", length + 1));
}

absl::Status CheckRoom(const SequenceRecord& record, uint32_t length) {
  const uint32_t growth = length - record.logical_length;
  for (const BlockTable& table : record.layers) {
    const uint64_t room = table.capacity() - table.resident().value();
    if (growth <= room) continue;
    return Refuse(record, absl::StrCat("logical_length ", length, " needs room for ", growth,
                                       " more tokens; the pages held have room for ", room));
  }
  return absl::OkStatus();
}

absl::Status CheckFilled(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t growth = request.logical_length.value() - record.logical_length;
  const uint32_t page_tokens = record.geometry.page_tokens;
  size_t named = 0;
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    const BlockTable& table = record.layers[layer];
    const uint32_t resident = table.resident().value();
    const uint32_t full_pages = (resident + growth) / page_tokens;
    if (full_pages == resident / page_tokens) continue;
    const PageRef expected = table.pages()[full_pages - 1];
    if (named == request.filled.size()) {
      return Refuse(record,
                    absl::StrCat("a page became full in layer ", layer, ": filled must name ",
                                 PageText(expected), ", got ", named, " pages"));
    }
    if (request.filled[named] != expected) {
      return Refuse(record, absl::StrCat("filled of layer ", layer, " must be ", PageText(expected),
                                         ", got ", PageText(request.filled[named])));
    }
    ++named;
  }
  if (named == request.filled.size()) return absl::OkStatus();
  return Refuse(record, absl::StrCat("filled names ", request.filled.size(), " pages, but ", named,
                                     " became full"));
}

absl::Status CheckPromptCommit(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t length = request.logical_length.value();
  if (length > record.prompt_tokens) {
    return Refuse(record,
                  absl::StrCat("logical_length ", length, " runs past the prompt's end at ",
                               record.prompt_tokens, ": commit the prompt's last chunk by itself"));
  }
  if (!request.filled.empty()) {
    return Refuse(record, "filled pages are for decode, not for the prompt");
  }
  if (length > record.logical_length && record.plan_in_flight()) {
    return Refuse(record, "its compaction waits: acknowledge the plan before the next chunk");
  }
  const uint32_t stop = record.footprint.stops().Next(record.logical_length);
  if (length > stop) {
    return Refuse(record, absl::StrCat("logical_length ", length, " runs past ", stop,
                                       ", where the prompt is compacted: commit up to there"));
  }
  if (absl::Status s = CheckRoom(record, length); !s.ok()) return s;
  if (length == record.prompt_tokens) return CheckTokens(record, request);
  if (request.sampled.empty()) return absl::OkStatus();
  return Refuse(record, absl::StrCat("sampled tokens before the prompt's end: logical_length ",
                                     length, " of ", record.prompt_tokens));
}

absl::Status CheckDecodeCommit(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t length = request.logical_length.value();
  const uint32_t growth = length - record.logical_length;
  if (growth > 0 && record.compaction_due() && record.plan_in_flight()) {
    return Refuse(record, "its compaction waits: acknowledge the plan before decoding");
  }
  // One that comes down to a lower budget decodes beside its plans in either mode.
  if (growth > 0 && record.plan_in_flight() && !record.shrinking.active() &&
      record.cache.mode == policy::EvictionMode::kSynchronous) {
    return Refuse(record,
                  "a plan waits, and eviction_mode is synchronous: acknowledge the plan first");
  }
  if (growth > record.remaining()) {
    return Refuse(record,
                  absl::StrCat("logical_length ", length, " exceeds prompt and max_new_tokens, ",
                               uint64_t{record.prompt_tokens} + record.max_new_tokens));
  }
  if (absl::Status s = CheckRoom(record, length); !s.ok()) return s;
  if (absl::Status s = CheckFilled(record, request); !s.ok()) return s;
  return CheckTokens(record, request);
}

}  // namespace

absl::Status CheckSettings(const policy::CacheConfig& cache, const CacheGeometry& geometry) {
  absl::Status valid = policy::Validate(cache, geometry.page_tokens, geometry.num_layers);
  if (!valid.ok()) return valid;
  if (cache.layers == policy::Layers::kShared && geometry.windows.any()) {
    return absl::InvalidArgumentError(
        "layers shared: some layers of this model attend to a window and hold other tokens, so "
        "they cannot decide together; leave layers out");
  }
  return absl::OkStatus();
}

absl::Status CheckCommit(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t length = request.logical_length.value();
  if (record.parked) return Refuse(record, "it is parked: ask for its pages before its next step");
  if (length < record.logical_length) {
    return Refuse(record, absl::StrCat("logical_length ", length, " goes backwards from ",
                                       record.logical_length));
  }
  return record.logical_length < record.prompt_tokens ? CheckPromptCommit(record, request)
                                                      : CheckDecodeCommit(record, request);
}

bool IsQuiet(const SequenceRecord& record, const CommitTokens& request) {
  const uint64_t length = request.logical_length.value();
  return OnlyDecodes(record) && length > record.logical_length &&
         length - record.logical_length <= record.quiet_tokens && request.filled.empty() &&
         CheckTokens(record, request).ok();
}

}  // namespace folio::cache
