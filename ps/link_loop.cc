#include "ps/link_loop.h"

#include "ps/data_stream.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

// How long Join waits for gRPC to finish writes that are in progress.
constexpr Nanoseconds kDrainTime = 200 * kMillisecond;

}  // namespace

absl::Status LinkLoop::Start() {
  return thread_.Start([this] { Run(); });
}

void LinkLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<Completion*>(tag)->Run(ok);
  MutexLock lock(mu_);
  drained_ = true;
  drained_changed_.NotifyAll();
}

void LinkLoop::Join(absl::Span<const ServerAddress> servers) {
  if (!thread_.running()) Run();  // Handles the completions that are left in the queue.
  bool drained = false;
  {
    MutexLock lock(mu_);
    while (!drained_ && drained_changed_.WaitFor(mu_, kDrainTime)) {
    }
    drained = drained_;
  }
  for (const ServerAddress& server : servers) {
    const absl::StatusOr<HostPort> address = ParseHostPort(server.address);
    if (!drained && address.ok()) ShutDownConnectionsTo(*address);
  }
  thread_.Join();
}

}  // namespace tethys
