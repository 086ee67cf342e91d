#include "services/wire/output_options.h"

#include "folio/v1/kv_manager.pb.h"

namespace folio::wire {

std::string Serialize(const OutputOptions& options) {
  v1::OutputOptions message;
  for (const std::string& stop : options.stop) message.add_stop(stop);
  message.set_ignore_eos(options.ignore_eos);
  if (options.logprobs.has_value()) message.set_logprobs(*options.logprobs);
  return message.SerializeAsString();
}

std::optional<OutputOptions> ParseOutputOptions(const std::string& bytes) {
  v1::OutputOptions message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  OutputOptions options;
  options.stop.assign(message.stop().begin(), message.stop().end());
  options.ignore_eos = message.ignore_eos();
  if (message.has_logprobs()) options.logprobs = message.logprobs();
  return options;
}

}  // namespace folio::wire
