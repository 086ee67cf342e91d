// This header has the times of HTTP/2 keepalive, which both sides of a connection must agree on.
//
// A connection to a process that is stopped, or to a machine that is gone, stays open forever
// unless someone asks. A client that hears nothing while a call runs sends a PING, and takes the
// server for lost if no answer comes. So a call to a server that hangs ends after 15 seconds. The
// server does the same with longer times, because a client may be slow and alive. It asks during
// calls only, because grpcio does not read its connection between two calls.
//
// A server must allow the PINGs of its clients. By default gRPC's servers take one every 5 minutes
// while they send nothing, and end the connection of a client that pings more often three times
// (GOAWAY with ENHANCE_YOUR_CALM). Folio's servers before version 0.2 have that default. A call
// that gets nothing for 40 seconds from such a server is cut with UNAVAILABLE. gRPC's client then
// doubles its time between pings for that channel, and the SDKs ask again or resume.
#ifndef FOLIO_SERVICES_GRPC_KEEPALIVE_H_
#define FOLIO_SERVICES_GRPC_KEEPALIVE_H_

namespace folio {

// A client's GRPC_ARG_KEEPALIVE_TIME_MS and GRPC_ARG_KEEPALIVE_TIMEOUT_MS.
inline constexpr int kKeepaliveTimeMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 5'000;

// A server closes the connection of a client whose PINGs come faster than this more than twice. It
// is below kKeepaliveTimeMs, because a PING that was delayed shortens the time to the next one.
inline constexpr int kLeastPingIntervalMs = 5'000;
static_assert(kLeastPingIntervalMs < kKeepaliveTimeMs);

// The server's times.
inline constexpr int kServerKeepaliveTimeMs = 30'000;
inline constexpr int kServerKeepaliveTimeoutMs = 20'000;

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_KEEPALIVE_H_
