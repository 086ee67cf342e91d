// FOLIO_WIDE marks a function that is compiled for AVX2 and POPCNT, which the build does not
// assume. Call it only if Wide() says that this processor has them. It must give the results of its
// plain twin, bit for bit. Elsewhere the mark does nothing and Wide() is false.
#ifndef FOLIO_SERVICES_POLICY_WIDE_H_
#define FOLIO_SERVICES_POLICY_WIDE_H_

namespace folio::policy {

#if defined(__x86_64__)
#define FOLIO_WIDE [[gnu::target("avx2,popcnt")]]
inline bool Wide() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("popcnt") != 0;
}
#else
#define FOLIO_WIDE
inline bool Wide() { return false; }
#endif

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_WIDE_H_
