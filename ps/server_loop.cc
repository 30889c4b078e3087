#include "ps/server_loop.h"

#include <utility>

namespace tethys {

void ServerLoop::End() {
  if (std::exchange(ended_, true)) return;
  queue_->Shutdown();
  if (!thread_.running()) Run();  // Handles the completions that are left in the queue.
  thread_.Join();
}

absl::Status ServerLoop::Start() {
  return thread_.Start([this] { Run(); });
}

void ServerLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<Completion*>(tag)->Run(ok);
}

absl::Status ServerLoop::Call(absl::FunctionRef<absl::Status()> function) {
  absl::Status result;
  bool done = false;
  Post([&] {
    absl::Status status = function();
    MutexLock lock(mu_);
    result = std::move(status);
    done = true;
    called_.NotifyAll();
  });
  MutexLock lock(mu_);
  while (!done) called_.Wait(mu_);
  return result;
}

void ServerLoop::Post(std::function<void()> function) {
  MutexLock lock(mu_);
  posted_.push_back(std::move(function));
  if (std::exchange(wake_pending_, true)) return;
  wake_alarm_.Set(queue_.get(), gpr_now(GPR_CLOCK_REALTIME), &woken_);
}

void ServerLoop::RunPosted() {
  std::deque<std::function<void()>> posted;
  {
    MutexLock lock(mu_);
    wake_pending_ = false;
    posted.swap(posted_);
  }
  for (const auto& function : posted) function();
}

}  // namespace tethys
