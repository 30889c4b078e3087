#include "runtime/base/append_queue.h"

#include <utility>

#include "runtime/base/logging.h"

namespace tethys {

AppendQueue::AppendQueue(Options options, Write write)
    : options_(std::move(options)), write_(std::move(write)) {
  const absl::Status started = Annotate(thread_.Start([this] { Run(); }), options_.name);
  MutexLock lock(mu_);
  error_ = given_up_ = started;
}

AppendQueue::~AppendQueue() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

void AppendQueue::Append(absl::string_view lines) {
  MutexLock lock(mu_);
  if (!given_up_.ok()) return;
  const int64_t size = static_cast<int64_t>(lines.size());
  if (static_cast<int64_t>(waiting_.size()) + size <= options_.most_bytes) {
    waiting_.append(lines.data(), lines.size());
    appended_ += size;
    changed_.NotifyAll();
    return;
  }
  absl::Status full = absl::ResourceExhaustedError(
      absl::StrCat("more than ", options_.most_bytes, " bytes of ", options_.name, " wait for the disk"));
  if (options_.retry) {
    // If a write has failed, its error says why the queue is full.
    given_up_ = Annotate(last_.ok() ? full : last_, absl::StrCat("a part of ", options_.name, " is lost"));
    full = given_up_;
    waiting_.clear();
    changed_.NotifyAll();
  }
  error_.Update(full);
}

absl::StatusOr<AppendQueue::Progress> AppendQueue::GetProgress(int64_t most_bytes) {
  MutexLock lock(mu_);
  if (!given_up_.ok()) return absl::DataLossError(given_up_.message());
  const absl::string_view record = record_ == nullptr ? absl::string_view() : *record_;
  if (static_cast<int64_t>(record.size() + waiting_.size()) > most_bytes) {
    return absl::UnavailableError(
        absl::StrCat("more than ", most_bytes, " bytes of ", options_.name, " wait for the disk"));
  }
  return Progress{.written = written_, .unwritten = absl::StrCat(record, waiting_)};
}

absl::Status AppendQueue::TakeError() {
  MutexLock lock(mu_);
  return std::exchange(error_, absl::OkStatus());
}

absl::Status AppendQueue::Flush() {
  MutexLock lock(mu_);
  const int64_t target = appended_;
  const int64_t begun = begun_;
  ++flushing_;
  changed_.NotifyAll();
  while (given_up_.ok() && settled_ < target && failed_ <= begun) changed_.Wait(mu_);
  --flushing_;
  if (!options_.retry) return std::exchange(error_, absl::OkStatus());
  if (!given_up_.ok()) return given_up_;
  return settled_ < target ? last_ : absl::OkStatus();
}

void AppendQueue::Run() {
  std::string logged;
  while (const std::shared_ptr<const std::string> record = Take()) {
    const absl::Status status = write_(*record);
    if (!status.ok() && StatusText(status) != logged) {
      logged = StatusText(status);
      TETHYS_LOG(Error, logged);
    }
    Settle(*record, status);
  }
}

std::shared_ptr<const std::string> AppendQueue::Take() {
  MutexLock lock(mu_);
  while (waiting_.empty() && !ending_) changed_.Wait(mu_);
  ++begun_;
  if (waiting_.empty()) return nullptr;
  record_ = std::make_shared<const std::string>(std::exchange(waiting_, std::string()));
  return record_;
}

void AppendQueue::Settle(const std::string& record, const absl::Status& status) {
  MutexLock lock(mu_);
  last_ = status;
  error_.Update(status);
  changed_.NotifyAll();
  record_ = nullptr;
  if (status.ok()) written_ += static_cast<int64_t>(record.size());
  if (status.ok() || !options_.retry) {
    settled_ += static_cast<int64_t>(record.size());
    return;
  }
  failed_ = begun_;
  if (!given_up_.ok()) return;
  if (ending_) return waiting_.clear();
  waiting_.insert(0, record);
  if (flushing_ == 0) changed_.WaitFor(mu_, options_.retry_pause);
}

}  // namespace tethys
