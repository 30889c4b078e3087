#include "runtime/chief/refusal.h"

#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/base/mutex.h"
#include "runtime/chief/chief_server.h"

namespace tethys {
namespace {

// A refusal has at most this many bytes of the reason: gRPC sends a status's message in a header, which may
// have at most 8 KiB.
constexpr size_t kMaxReason = 2048;
// The time for which the last refusals may still be sent.
constexpr Nanoseconds kLastAnswer = 5 * kSecond;

class RefusingChief final : public ChiefEvents {
 public:
  explicit RefusingChief(std::string reason) : reason_(std::move(reason)) {}

  absl::Status Admit(TaskId task, uint32_t) override {
    MutexLock lock(mu_);
    told_.insert(task);
    changed_.NotifyAll();
    return absl::FailedPreconditionError(reason_);
  }
  void OnMessage(TaskId, uint32_t, proto::FromTask) override {}
  void OnGone(TaskId, uint32_t) override {}
  absl::Status WriteChunk(int64_t, int, int64_t, absl::Span<const float>) override { return Nothing(); }
  absl::Status ReadRange(int, int64_t, absl::Span<float>) override { return Nothing(); }
  absl::Status ReadDataFile(const std::string&, int64_t,
                            absl::FunctionRef<absl::Status(absl::string_view)>) override {
    return Nothing();
  }

  // Blocks until `tasks` tasks have been refused, or until `deadline`. Returns the number refused.
  int Await(int tasks, Nanoseconds deadline, const Clock& clock) {
    MutexLock lock(mu_);
    while (static_cast<int>(told_.size()) < tasks && clock.Now() < deadline) {
      changed_.WaitFor(mu_, deadline - clock.Now());
    }
    return static_cast<int>(told_.size());
  }

 private:
  static absl::Status Nothing() { return absl::FailedPreconditionError("the job does not begin"); }

  const std::string reason_;
  Mutex mu_;
  CondVar changed_;
  std::set<TaskId> told_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status RefuseTasks(const Refusal& refusal, const Clock& clock) {
  RefusingChief chief(refusal.reason.substr(0, kMaxReason));
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<ChiefServer> server,
                          ChiefServer::Start(refusal.listen, refusal.secret, clock, chief));
  const int told = chief.Await(refusal.tasks, clock.Now() + refusal.timeout, clock);
  server->EndCalls(kLastAnswer);
  if (told >= refusal.tasks) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      refusal.tasks - told, " of ", refusal.tasks, " workers and servers did not connect within ",
      ToSeconds(refusal.timeout), " s, and did not get the reason why the job cannot begin"));
}

}  // namespace tethys
