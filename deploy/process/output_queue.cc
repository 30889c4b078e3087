#include "deploy/process/output_queue.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

// While an AllSignalsBlocked exists, all signals are blocked in the thread that created it. A thread that is
// started in this time inherits this mask, so only older threads receive signals.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

OutputQueue::OutputQueue(int fd) : fd_(fd) {
  const AllSignalsBlocked blocked;  // The new thread inherits the signal mask.
  threaded_ = writer_.Start([this] { WriteAll(); }).ok();
}

OutputQueue::~OutputQueue() {
  {
    const MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
  }
  writer_.Join();
}

void OutputQueue::Write(std::string text) {
  if (!threaded_) return WriteFully(fd_, text.data(), text.size(), "the display").IgnoreError();
  const MutexLock lock(mu_);
  if (bytes_ >= kMaxBytes) {
    dropped_ += text.size();
    return;
  }
  if (dropped_ > 0) {
    text = absl::StrCat("[", std::exchange(dropped_, 0),
                        " bytes of output are left out here, because they were not read in time]\n", text);
  }
  bytes_ += text.size();
  texts_.push_back(std::move(text));
  changed_.NotifyAll();
}

bool OutputQueue::behind() const {
  const MutexLock lock(mu_);
  return bytes_ > kBehindBytes;
}

void OutputQueue::WriteAll() {
  while (true) {
    std::string text;
    {
      const MutexLock lock(mu_);
      while (texts_.empty() && !closing_) changed_.Wait(mu_);
      if (texts_.empty()) return;
      text = std::move(texts_.front());
      texts_.pop_front();
    }
    // A display that cannot be written to is no reason to stop the job.
    WriteFully(fd_, text.data(), text.size(), "the display").IgnoreError();
    const MutexLock lock(mu_);
    bytes_ -= text.size();
  }
}

}  // namespace tethys
