#include "services/grpc/unread_answers.h"

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>

#include <atomic>

namespace folio {

// It belongs to one call.
class UnreadAnswers::Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(UnreadAnswers* answers, grpc::ServerContextBase* context)
      : answers_(answers), context_(context) {}
  ~Interceptor() override { End(); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      number_.store(answers_->Add(context_->c_call()));
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_SEND_MESSAGE)) End();
    methods->Proceed();
  }

 private:
  void End() {
    UnreadAnswers* const answers = answers_;  // the exchange is the last use of this object
    const uint64_t number = number_.exchange(0);
    if (number != 0) answers->Remove(number);
  }

  UnreadAnswers* const answers_;
  grpc::ServerContextBase* const context_;
  // gRPC may destroy the call on another thread than the one that sent the answer.
  std::atomic<uint64_t> number_ = 0;
};

class UnreadAnswers::Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(UnreadAnswers* answers) : answers_(answers) {}

  // The caller, which is gRPC, owns it. Null for streams, whose methods bound themselves.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (info->type() != grpc::experimental::ServerRpcInfo::Type::UNARY) return nullptr;
    return new Interceptor(answers_, info->server_context());
  }

 private:
  UnreadAnswers* const answers_;
};

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
UnreadAnswers::MakeInterceptors() {
  return std::make_unique<Factory>(this);
}

uint64_t UnreadAnswers::Add(grpc_call* call) {
  grpc_call* oldest = nullptr;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() >= most_) {
      oldest = waiting_.begin()->second;
      grpc_call_ref(oldest);
      waiting_.erase(waiting_.begin());
    }
    number = ++last_;
    waiting_[number] = call;
  }
  if (oldest != nullptr) {
    // Without the lock, because gRPC may run the end of the call on this thread.
    grpc_call_cancel_with_status(oldest, GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 "the answer was not read, and newer ones wait", nullptr);
    grpc_call_unref(oldest);
  }
  return number;
}

void UnreadAnswers::Remove(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  waiting_.erase(number);
}

}  // namespace folio
