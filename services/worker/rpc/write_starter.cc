#include "services/worker/rpc/write_starter.h"

#include <pthread.h>

#include <utility>

namespace folio::worker {

WriteStarter::WriteStarter() : thread_([this] { Run(); }) {}

WriteStarter::~WriteStarter() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void WriteStarter::Start(WritingCall* call) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(call);
}

void WriteStarter::Run() {
  pthread_setname_np(pthread_self(), "write-starter");
  std::vector<WritingCall*> calls;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &WriteStarter::HasWork));
      if (waiting_.empty()) return;
      std::swap(calls, waiting_);
    }
    for (WritingCall* call : calls) call->StartWriteNow();
    calls.clear();
  }
}

}  // namespace folio::worker
