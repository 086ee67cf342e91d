#include "services/worker/flags.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/threads/thread_pool.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/connection_flag.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "services/tracing/trace_flags.h"
#include "services/worker/address_flags.h"

ABSL_FLAG(std::string, model, "",
          "the model: a .gguf file, or a Hugging Face directory with config.json; required");
ABSL_FLAG(std::string, model_name, "", "name of the model; empty for the name in its file");
ABSL_FLAG(
    int, max_context, 0,
    "tokens that a sequence may have at most, with its prompt. 0: as many as the model is made "
    "for. With LongRoPE (Phi-3), a context of at most the original one has the short factors");
ABSL_FLAG(
    std::string, device, "cpu",
    "the device that computes: cpu, cuda (each rank takes the GPU that holds its pages), or that "
    "GPU by its number, such as cuda:0");
ABSL_FLAG(folio::ByteSize, gpu_memory, {},
          "with --device=cuda, GPU memory for weights and activations, such as 20GiB, without the "
          "manager's pages; 0 is all free memory");
ABSL_FLAG(std::string, compute, "bfloat16",
          "arithmetic: bfloat16 (fast), float32 (the plain reference, on the CPU), or with "
          "--device=cuda fp8: the layers' weights in 8 bits, which is faster and less exact");
ABSL_FLAG(
    std::string, kernels, "auto",
    "the CPU's family of bfloat16 kernels, named after its instruction set, or with --device=cuda "
    "libraries (cuBLASLt and FlashInfer for all steps); auto is the fastest on this machine");
ABSL_FLAG(
    std::string, weights, "auto",
    "how quantised matrices of a GGUF file are held: as-is (on the CPU with activations in 8 bits "
    "beside them) or bfloat16. auto is as-is, but bfloat16 with --compute=float32 and with "
    "--device=cuda, where the speed of as-is has not been measured yet");
ABSL_FLAG(int, threads, 0,
          "threads that compute, or with --device=cuda load weights; 0 is the cores that this "
          "process may use, shared with the ranks it starts");
ABSL_FLAG(absl::Duration, target_itl, absl::ZeroDuration(),
          "time between two tokens of a stream that prompts may bring it to, from 1ms to 1m. Steps "
          "get as many prompt tokens as that allows, by what earlier steps took. 0 is 2.4 times "
          "what decoding alone takes, but at most 40ms, with --device=cuda, else 100ms");
ABSL_FLAG(int, prefill_chunk, 0,
          "prompt tokens per step while nothing decodes, from 16 to 65536. 0: up to 8192 with "
          "--device=cuda, else 512, fewer where they take more than five times --target_itl");
ABSL_FLAG(int, prefill_chunk_beside_decodes, 0,
          "prompt tokens per step while streams run, from 16 to 65536 and at most --prefill_chunk. "
          "0: as many as --target_itl allows");
ABSL_FLAG(int, max_batch, 64,
          "sequences that run at a time, from 1 to 1024; others wait. An eighth of them is "
          "for prompts of at most 1024 tokens with --device=cuda, else 128, or of "
          "--prefill_chunk_beside_decodes tokens if that is given");
ABSL_FLAG(int, max_queue, 4096,
          "requests that may wait for a place or for room in the pool, from 1 to 1000000; further "
          "ones are refused");
ABSL_FLAG(absl::Duration, queue_timeout, absl::Minutes(5),
          "how long a request may wait for a place or for room in the pool before it ends, from 0 "
          "to 24h, such as 30s; 0 is forever");
ABSL_FLAG(int, page_tokens, 16, "tokens per page, from 1 to 256; equal for all workers of a pool");
ABSL_FLAG(
    bool, special_tokens_in_chat, false,
    "recognise special tokens that are written in the messages of a chat, with which a message "
    "can end its turn and begin another one; otherwise they are ordinary text");
ABSL_FLAG(absl::Duration, attach_timeout, absl::Seconds(60),
          "how long to wait for the manager, from 0 to 24h, such as 30s");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "how long running requests may take to end after SIGTERM, from 0 to 24h, such as 30s");
ABSL_FLAG(absl::Duration, slow_client_timeout, absl::Seconds(60),
          "how long a client may leave its answer unread before its request ends, from 0 to 24h, "
          "such as 30s; 0 is forever, and the request keeps its pages");
ABSL_FLAG(bool, access_log, true,
          "write a line for each request into the log when its call has ended, at level info");
ABSL_FLAG(std::optional<absl::Duration>, step_timeout, std::nullopt,
          "how long the step loop may stand still, for example because a GPU hangs, before the "
          "worker ends itself so that another one continues its sequences. From 1s to 24h, or 0 "
          "for never; if unset, 60s, on the CPU with long steps 5 times the longest, at most 10m");
ABSL_FLAG(int, tp, 1,
          "tensor-parallel ranks, from 1 to 64: processes that share the model's heads and work");
ABSL_FLAG(int, rank, 0,
          "index of this rank, 0 to tp-1; rank 0 leads and serves, the others follow it");
ABSL_FLAG(std::string, group, "",
          "path of the Unix socket where the ranks meet, for ranks that are started separately, "
          "each with its --rank; if empty, the leader starts the others itself");
ABSL_FLAG(absl::Duration, group_timeout, absl::Minutes(5),
          "how long ranks wait for each other at the start, from 0 to 24h, such as 30s");
ABSL_FLAG(int, leader_pid, 0,
          "set by a leader that starts a rank: the rank ends with that process");

namespace folio::worker {
namespace {

// No healthy step of a GPU comes near this. It has at most --prefill_chunk tokens beside the
// decodes, which take less than a second, and some seconds more when it loads its kernels.
constexpr absl::Duration kStepTimeout = absl::Seconds(60);
constexpr absl::Duration kMostStepTimeoutOfCpu = absl::Minutes(10);

absl::Status CheckTimeout(absl::string_view flag, absl::Duration value) {
  return CheckFlagRange(flag, value, absl::ZeroDuration(), absl::Hours(24));
}

absl::Status CheckChunk(absl::string_view flag, int value) {
  return value == 0 ? absl::OkStatus() : CheckFlagRange(flag, value, 16, 65536);
}

absl::Status CheckTarget(absl::Duration value) {
  if (value == absl::ZeroDuration()) return absl::OkStatus();
  return CheckFlagRange("target_itl", value, absl::Milliseconds(1), absl::Minutes(1));
}

TokenBudget ReadTokenBudget(bool gpu) {
  const auto alone = static_cast<uint32_t>(absl::GetFlag(FLAGS_prefill_chunk));
  const auto beside = static_cast<uint32_t>(absl::GetFlag(FLAGS_prefill_chunk_beside_decodes));
  TokenBudget budget;
  budget.fixed_alone = alone != 0;
  budget.fixed_beside_decodes = beside != 0;
  budget.alone = alone != 0 ? alone : gpu ? 8192 : 512;
  budget.beside_decodes = beside != 0 ? beside : budget.alone;
  budget.target_itl = absl::GetFlag(FLAGS_target_itl);
  if (budget.target_itl == absl::ZeroDuration()) {
    budget.target_itl = absl::Milliseconds(gpu ? 40 : 100);
    // A GPU computes hundreds of prompt tokens while it decodes. A CPU would lose much of its rate.
    budget.most_times_decode = gpu ? 2.4 : 0;
  }
  budget.least = gpu ? 128 : 16;
  budget.short_prompt = beside != 0 ? beside : gpu ? 1024 : 128;
  return budget;
}

absl::Status CheckNumbers() {
  for (const absl::Status& status :
       {CheckFlagRange("threads", absl::GetFlag(FLAGS_threads), 0, 1024),
        CheckChunk("prefill_chunk", absl::GetFlag(FLAGS_prefill_chunk)),
        CheckChunk("prefill_chunk_beside_decodes",
                   absl::GetFlag(FLAGS_prefill_chunk_beside_decodes)),
        CheckTarget(absl::GetFlag(FLAGS_target_itl)),
        CheckFlagRange("max_batch", absl::GetFlag(FLAGS_max_batch), 1, 1024),
        CheckFlagRange("max_queue", absl::GetFlag(FLAGS_max_queue), 1, 1'000'000),
        CheckTimeout("queue_timeout", absl::GetFlag(FLAGS_queue_timeout)),
        CheckFlagRange("page_tokens", absl::GetFlag(FLAGS_page_tokens), 1, 256),
        CheckFlagRange("max_context", absl::GetFlag(FLAGS_max_context), 0, 1 << 28),
        CheckFlagRange("tp", absl::GetFlag(FLAGS_tp), 1, 64),
        CheckFlagRange("rank", absl::GetFlag(FLAGS_rank), 0, absl::GetFlag(FLAGS_tp) - 1),
        CheckTimeout("group_timeout", absl::GetFlag(FLAGS_group_timeout)),
        CheckTimeout("attach_timeout", absl::GetFlag(FLAGS_attach_timeout)),
        CheckTimeout("drain_timeout", absl::GetFlag(FLAGS_drain_timeout)),
        CheckTimeout("slow_client_timeout", absl::GetFlag(FLAGS_slow_client_timeout))}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// `cuda` chooses the default.
absl::StatusOr<StepTimeout> ReadStepTimeout(bool cuda) {
  const auto given = absl::GetFlag(FLAGS_step_timeout);
  if (!given) return StepTimeout{kStepTimeout, cuda ? kStepTimeout : kMostStepTimeoutOfCpu};
  if (*given == absl::ZeroDuration()) return StepTimeout{*given};
  // The step loop makes a turn four times a second even when it has nothing to do.
  absl::Status status = CheckFlagRange("step_timeout", *given, absl::Seconds(1), absl::Hours(24));
  if (!status.ok()) return status;
  return StepTimeout{*given};
}

absl::StatusOr<GroupOptions> ReadGroup() {
  GroupOptions group;
  group.self = {Rank(static_cast<uint32_t>(absl::GetFlag(FLAGS_rank))),
                static_cast<uint32_t>(absl::GetFlag(FLAGS_tp))};
  group.socket = absl::GetFlag(FLAGS_group);
  group.timeout = absl::GetFlag(FLAGS_group_timeout);
  group.leader_pid = absl::GetFlag(FLAGS_leader_pid);
  if (group.self.ranks == 1 && !group.socket.empty()) {
    return BadFlag("group", group.socket, "needs several ranks; give --tp too");
  }
  if (group.self.rank != Rank(0) && group.socket.empty()) {
    return BadFlag("rank", absl::StrCat(group.self.rank.value()),
                   "needs --group, the socket at which it meets its leader");
  }
  return group;
}

absl::StatusOr<DeviceChoice> ReadDevice() {
  const std::string given = absl::GetFlag(FLAGS_device);
  const uint64_t memory = absl::GetFlag(FLAGS_gpu_memory).bytes;
  DeviceChoice device;
  if (given == "cpu") {
    if (memory == 0) return device;
    return BadFlag("gpu_memory", FormatByteSize({memory}),
                   "is for --device=cuda; leave it out, or give that too");
  }
  device.cuda = true;
  device.gpu_memory = memory;
  absl::string_view number = given;
  int parsed = 0;
  if (given == "cuda") return device;
  if (!absl::ConsumePrefix(&number, "cuda:") || !absl::SimpleAtoi(number, &parsed) || parsed < 0) {
    return BadFlag("device", given, "give cpu, cuda, or a GPU by its number, such as cuda:0");
  }
  device.number = parsed;
  return device;
}

// Refuses settings that do not fit the device.
absl::Status CheckCompute(const WorkerFlags& flags) {
  const std::string& weights = flags.compute.weights;
  if (weights != kWeightsAuto && weights != kAsIs && weights != "bfloat16") {
    return BadFlag("weights", weights, "must be auto, as-is or bfloat16");
  }
  if (!flags.device.cuda) return MakeOps(flags.compute).status();
  if (weights == kAsIs && flags.compute.compute == kFp8) {
    return BadFlag("weights", weights,
                   "is not for --compute=fp8, with which weights are held in 8 bits; give auto");
  }
  if (flags.device.number.has_value() && flags.group.self.ranks > 1 && flags.group.socket.empty()) {
    return BadFlag("device", flags.device.ToString(),
                   "is one GPU, and --tp starts ranks that need one each; give --device=cuda, with "
                   "which each rank takes the GPU that holds its pages");
  }
  if (flags.compute.compute != "bfloat16" && flags.compute.compute != kFp8) {
    return BadFlag("compute", flags.compute.compute,
                   "a GPU computes in bfloat16 or fp8; give one of them, or --device=cpu");
  }
  if (flags.compute.kernels != "auto" && flags.compute.kernels != kLibraries) {
    return BadFlag("kernels", flags.compute.kernels,
                   "is for --device=cpu; with a GPU give auto or libraries");
  }
  return absl::OkStatus();
}

// The first process of a container has number 1, and the host's name is the container's.
std::string WorkerName() {
  std::array<char, HOST_NAME_MAX + 1> host = {};
  if (getpid() == 1 && gethostname(host.data(), host.size() - 1) == 0) return host.data();
  return absl::StrCat("folio-worker-", getpid());
}

}  // namespace

absl::StatusOr<WorkerFlags> ReadFlags() {
  WorkerFlags flags;
  flags.model.path = absl::GetFlag(FLAGS_model);
  if (flags.model.path.empty()) {
    return BadFlag("model", "", "is required: give a .gguf file or a Hugging Face directory");
  }
  if (absl::Status s = ReadAddressFlags(&flags); !s.ok()) return s;
  if (absl::Status s = tracing::ReadTraceFlags(&flags.traces); !s.ok()) return s;
  const auto max_connections = ReadMaxConnections(DescriptorLimit());
  if (!max_connections.ok()) return max_connections.status();
  flags.max_connections = *max_connections;
  if (absl::Status status = CheckNumbers(); !status.ok()) return status;
  flags.model.name = absl::GetFlag(FLAGS_model_name);
  flags.model.max_context = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_context));
  flags.model.page_tokens = static_cast<uint32_t>(absl::GetFlag(FLAGS_page_tokens));
  flags.compute.compute = absl::GetFlag(FLAGS_compute);
  flags.compute.kernels = absl::GetFlag(FLAGS_kernels);
  flags.compute.weights = absl::GetFlag(FLAGS_weights);
  flags.compute.threads = absl::GetFlag(FLAGS_threads);
  auto group = ReadGroup();
  if (!group.ok()) return group.status();
  flags.group = *std::move(group);
  if (flags.compute.threads == 0) {
    // Ranks that the leader starts share its cores.
    const int sharers = flags.group.socket.empty() ? static_cast<int>(flags.group.self.ranks) : 1;
    flags.compute.threads = std::max(1, kernels::AvailableCores() / sharers);
  }
  auto device = ReadDevice();
  if (!device.ok()) return device.status();
  flags.device = *device;
  if (absl::Status status = CheckCompute(flags); !status.ok()) return status;
  auto step_timeout = ReadStepTimeout(flags.device.cuda);
  if (!step_timeout.ok()) return step_timeout.status();
  flags.serving.step_timeout = *step_timeout;
  flags.serving.worker_name = WorkerName();
  flags.serving.attach_timeout = absl::GetFlag(FLAGS_attach_timeout);
  flags.serving.token_budget = ReadTokenBudget(flags.device.cuda);
  flags.serving.max_batch = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_batch));
  flags.special_tokens_in_chat = absl::GetFlag(FLAGS_special_tokens_in_chat);
  flags.max_queue = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_queue));
  if (const absl::Duration timeout = absl::GetFlag(FLAGS_queue_timeout);
      timeout > absl::ZeroDuration()) {
    flags.serving.queue_timeout = timeout;
  }
  flags.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  flags.slow_client_timeout = absl::GetFlag(FLAGS_slow_client_timeout);
  flags.access_log = absl::GetFlag(FLAGS_access_log);
  return flags;
}

}  // namespace folio::worker
