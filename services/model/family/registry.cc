// The model families that this build knows. A family is declared here and nowhere else.
#include "services/model/family/family.h"

namespace folio::model {

extern const Family kGemma3;
extern const Family kGranite;
extern const Family kLlama;
extern const Family kMinistral3;
extern const Family kMistral;
extern const Family kPhi3;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kSmolLm3;

namespace {

constexpr const Family* kFamilies[] = {&kLlama,      &kQwen2,  &kMistral, &kQwen3,  &kPhi3,
                                       &kMinistral3, &kGemma3, &kGranite, &kSmolLm3};

}  // namespace

absl::Span<const Family* const> Families() { return kFamilies; }

}  // namespace folio::model
