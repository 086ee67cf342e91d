// SpinPause is called by a loop that waits for another core, between two reads.
#ifndef FOLIO_SERVICES_BASE_SPIN_PAUSE_H_
#define FOLIO_SERVICES_BASE_SPIN_PAUSE_H_

namespace folio {

// Leaves the core's other hardware thread its resources for some tens of cycles.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SPIN_PAUSE_H_
