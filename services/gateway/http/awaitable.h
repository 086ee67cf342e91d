// This header includes Asio's coroutines, whose own header in Boost 1.74 lacks an include.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_AWAITABLE_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_AWAITABLE_H_

// clang-format off
#include <utility>
#include <boost/asio/awaitable.hpp>
// clang-format on

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_AWAITABLE_H_
