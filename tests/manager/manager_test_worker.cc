// A worker without a model, to be stopped and killed: joins the manager, opens one sequence, says
// so on stdout, and keeps its lease until it is told otherwise.
//
//   manager_test_worker MANAGER_ADDRESS PROMPT_TOKENS [close-after-ms]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "tests/manager/manager_harness.h"

int main(int argc, char** argv) {
  uint32_t prompt = 0;
  uint32_t close_after_ms = UINT32_MAX;
  if (argc < 3 || !absl::SimpleAtoi(argv[2], &prompt) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &close_after_ms))) {
    std::fprintf(stderr, "usage: manager_test_worker ADDRESS PROMPT_TOKENS [close-after-ms]\n");
    return 2;
  }
  folio::testing::TestWorker worker(argv[1]);
  worker.Join();
  folio::v1::OpenSequence open = folio::testing::SmallOpen(prompt, 16);
  open.set_resume_token(folio::testing::kSmallResumeToken);
  open.mutable_output()->add_stop("the end");
  auto opened = worker.Open(open);
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
    return 1;
  }
  std::printf("holding sequence %llu pid %d\n",
              static_cast<unsigned long long>(opened->sequence_id()), getpid());
  std::fflush(stdout);
  const absl::Time close_at = absl::Now() + absl::Milliseconds(close_after_ms);
  while (absl::Now() < close_at) {
    if (!worker.Call().ok()) return 3;
    absl::SleepFor(absl::Milliseconds(20));
  }
  folio::v1::SessionRequest request;
  request.add_close()->set_sequence_id(opened->sequence_id());
  request.mutable_close(0)->set_lease_epoch(opened->lease_epoch());
  if (!worker.Call(request).ok() || !worker.End().ok()) return 4;
  return 0;
}
