#include "services/grpc/insecure_tcp_flag.h"

#include "absl/flags/flag.h"
#include "services/runtime/flags.h"
#include "services/runtime/listening_socket.h"

ABSL_FLAG(bool, insecure_tcp, false,
          "listen without encryption on TCP addresses that other machines reach, where everybody "
          "on the way can read and change what is said. It is for networks that you trust");

namespace folio {

bool InsecureTcpAllowed() { return absl::GetFlag(FLAGS_insecure_tcp); }

absl::Status CheckPlainTcp(absl::string_view flag, const std::vector<ListenAddress>& addresses,
                           const TlsFiles& tls) {
  if (!tls.empty() || InsecureTcpAllowed()) return absl::OkStatus();
  for (const ListenAddress& address : addresses) {
    if (!IsOpenToNetwork(address)) continue;
    return BadFlag(flag, address.ToString(), kOpen);
  }
  return absl::OkStatus();
}

}  // namespace folio
