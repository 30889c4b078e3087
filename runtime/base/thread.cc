#include "runtime/base/thread.h"

#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "runtime/base/control_group.h"
#include "runtime/base/mutex.h"

namespace tethys {
namespace {

void* RunBody(void* argument) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
  return nullptr;
}

// Appends the limit on `resource` to `limits` as text: `name`, and the limit as a multiple of `unit`. Appends
// nothing if there is no limit.
void AddLimit(int resource, const char* name, int64_t unit, const char* unit_name,
              std::vector<std::string>& limits) {
  rlimit limit{};
  if (getrlimit(static_cast<decltype(RLIMIT_NPROC)>(resource), &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY) return;
  limits.push_back(absl::StrCat(name, " ", static_cast<int64_t>(limit.rlim_cur) / unit, unit_name));
}

}  // namespace

absl::Status StartError(int error, absl::string_view what) {
  if (error != EAGAIN && error != ENOMEM) return ErrnoStatus(error, what);
  std::vector<std::string> limits;
  AddLimit(RLIMIT_NPROC, "ulimit -u", 1, "", limits);
  const GroupLimits group = ReadGroupLimits();
  if (group.tasks >= 0) {
    limits.push_back(absl::StrCat("pids.max ", group.tasks, ", of which ", group.tasks_left, " are free"));
  }
  AddLimit(RLIMIT_AS, "ulimit -v", 1024, " KiB", limits);
  std::string text = absl::StrCat(what, ": the limit of processes and threads, or of memory, is reached");
  for (size_t i = 0; i < limits.size(); ++i) absl::StrAppend(&text, i == 0 ? " (" : "; ", limits[i]);
  if (!limits.empty()) text += ")";
  return absl::ResourceExhaustedError(absl::StrCat(
      ErrnoStatus(error, text).message(), "; raise the limit, or start fewer processes on this machine"));
}

absl::Status Thread::Start(std::function<void()> body) {
  TETHYS_CHECK(!running_, "a thread is running");
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  const int error = pthread_create(&id_, nullptr, RunBody, owned.get());
  if (error != 0) return StartError(error, "cannot start a thread");
  static_cast<void>(owned.release());  // RunBody deletes it.
  running_ = true;
  return absl::OkStatus();
}

void Thread::Join() {
  if (!std::exchange(running_, false)) return;
  TETHYS_CHECK(pthread_join(id_, nullptr) == 0);
}

void Thread::Detach() {
  if (!std::exchange(running_, false)) return;
  TETHYS_CHECK(pthread_detach(id_) == 0);
}

absl::Status CheckThreads(int count) {
  Mutex mu;
  CondVar changed;
  bool ended = false;
  std::vector<Thread> threads(static_cast<size_t>(count));
  absl::Status status;
  for (Thread& thread : threads) {
    status = thread.Start([&] {
      MutexLock lock(mu);
      while (!ended) changed.Wait(mu);
    });
    if (!status.ok()) break;
  }
  {
    MutexLock lock(mu);
    ended = true;
    changed.NotifyAll();
  }
  for (Thread& thread : threads) thread.Join();
  return status;
}

void RunBeside(Nanoseconds interval, const std::function<void()>& work,
               const std::function<void()>& meanwhile) {
  Mutex mu;
  CondVar changed;
  bool done = false;
  Thread thread;
  const absl::Status started = thread.Start([&] {
    work();
    MutexLock lock(mu);
    done = true;
    changed.NotifyAll();
  });
  if (!started.ok()) return work();
  while (true) {
    {
      MutexLock lock(mu);
      if (!done) changed.WaitFor(mu, interval);
      if (done) break;
    }
    meanwhile();
  }
}

}  // namespace tethys
