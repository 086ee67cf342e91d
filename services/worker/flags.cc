#include "services/worker/flags.h"

#include <unistd.h>

#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/thread_pool.h"
#include "services/common/default_addresses.h"
#include "services/common/flags.h"

ABSL_FLAG(std::string, model, "",
          "the model: a .gguf file, or a Hugging Face directory with config.json; required");
ABSL_FLAG(std::string, model_name, "", "what the model is called; empty: what its file says");
ABSL_FLAG(std::string, manager, folio::DefaultManagerAddress(),
          "gRPC address of the manager on this node, unix:/path or host:port");
ABSL_FLAG(std::vector<std::string>, listen, {folio::DefaultWorkerAddress()},
          "gRPC addresses, unix:/path or host:port; several with commas or by giving it again");
ABSL_FLAG(std::string, compute, "bfloat16",
          "arithmetic: bfloat16 (fast) or float32 (the plain reference)");
ABSL_FLAG(std::string, kernels, "auto",
          "family of bfloat16 kernels, named for instruction sets; auto: the fastest here");
ABSL_FLAG(int, threads, 0, "threads that compute; 0: the cores this process may use");
ABSL_FLAG(int, prefill_chunk, 512,
          "prompt tokens per step while nothing decodes, from 16 to 65536");
ABSL_FLAG(int, prefill_chunk_beside_decodes, 128,
          "prompt tokens per step while streams run, from 16 to 65536 and at most --prefill_chunk: "
          "less holds up the streams less, more ends the prompt sooner");
ABSL_FLAG(int, max_batch, 64, "sequences that run at a time, from 1 to 1024; others queue");
ABSL_FLAG(int, page_tokens, 16, "tokens per page, from 1 to 256; equal for all workers of a pool");
ABSL_FLAG(absl::Duration, attach_timeout, absl::Seconds(60),
          "how long to wait for the manager, from 0 to 24h, such as 30s");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "how long running requests may take to end after SIGTERM, from 0 to 24h, such as 30s");

namespace folio::worker {
namespace {

absl::Status CheckTimeout(absl::string_view flag, absl::Duration value) {
  return CheckFlagRange(flag, value, absl::ZeroDuration(), absl::Hours(24));
}

absl::Status CheckNumbers() {
  for (const absl::Status& status :
       {CheckFlagRange("threads", absl::GetFlag(FLAGS_threads), 0, 1024),
        CheckFlagRange("prefill_chunk", absl::GetFlag(FLAGS_prefill_chunk), 16, 65536),
        CheckFlagRange("prefill_chunk_beside_decodes",
                       absl::GetFlag(FLAGS_prefill_chunk_beside_decodes), 16, 65536),
        CheckFlagRange("max_batch", absl::GetFlag(FLAGS_max_batch), 1, 1024),
        CheckFlagRange("page_tokens", absl::GetFlag(FLAGS_page_tokens), 1, 256),
        CheckTimeout("attach_timeout", absl::GetFlag(FLAGS_attach_timeout)),
        CheckTimeout("drain_timeout", absl::GetFlag(FLAGS_drain_timeout))}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerFlags> ReadFlags() {
  WorkerFlags flags;
  flags.model_path = absl::GetFlag(FLAGS_model);
  if (flags.model_path.empty()) {
    return BadFlag("model", "", "is required: give a .gguf file or a Hugging Face directory");
  }
  auto listen = ParseListenFlag(absl::GetFlag(FLAGS_listen));
  if (!listen.ok()) return listen.status();
  flags.listen = *std::move(listen);
  const std::string manager = absl::GetFlag(FLAGS_manager);
  auto address = ParseListenAddress(manager);
  if (!address.ok()) return BadFlag("manager", manager, address.status().message());
  if (absl::Status status = CheckNumbers(); !status.ok()) return status;

  flags.model_name = absl::GetFlag(FLAGS_model_name);
  flags.page_tokens = static_cast<uint32_t>(absl::GetFlag(FLAGS_page_tokens));
  flags.compute.compute = absl::GetFlag(FLAGS_compute);
  flags.compute.kernels = absl::GetFlag(FLAGS_kernels);
  flags.compute.threads = absl::GetFlag(FLAGS_threads);
  if (flags.compute.threads == 0) flags.compute.threads = kernels::cpu::AvailableCores();
  if (auto ops = MakeOps(flags.compute); !ops.ok()) return ops.status();
  flags.serving.manager = address->ToString();
  flags.serving.worker_name = absl::StrCat("folio-worker-", getpid());
  flags.serving.attach_timeout = absl::GetFlag(FLAGS_attach_timeout);
  flags.serving.prompt_chunk = {
      .alone = static_cast<uint32_t>(absl::GetFlag(FLAGS_prefill_chunk)),
      .beside_decodes = static_cast<uint32_t>(absl::GetFlag(FLAGS_prefill_chunk_beside_decodes))};
  flags.serving.max_batch = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_batch));
  flags.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  return flags;
}

}  // namespace folio::worker
