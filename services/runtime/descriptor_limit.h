// RaiseDescriptorLimit lets this process open as many file descriptors as its hard limit allows.
#ifndef FOLIO_SERVICES_RUNTIME_DESCRIPTOR_LIMIT_H_
#define FOLIO_SERVICES_RUNTIME_DESCRIPTOR_LIMIT_H_

namespace folio {

// Raises the soft limit and returns it. The soft limit is 1024 in most sessions, for programs that
// use select(), which cannot wait for larger descriptors. Folio and its libraries use poll and
// epoll. The limit is raised to 2^20 at most, because a container's hard limit may be near 2^30,
// and children inherit the limit, some of which close every possible descriptor one by one.
// A failure is logged, and the limit stays. Call it in main.
int RaiseDescriptorLimit();

// Returns the soft limit, at most the largest int.
int DescriptorLimit();

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_DESCRIPTOR_LIMIT_H_
