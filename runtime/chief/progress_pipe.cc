#include "runtime/chief/progress_pipe.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

// True if `event` is obsolete once `later` exists.
bool IsReplacedBy(const proto::ProgressEvent& event, const proto::ProgressEvent& later) {
  if (event.has_pulse()) return later.has_pulse();
  // A later pulse does not contain the contents of a progress event.
  if (event.has_progress()) return !later.has_pulse();
  return event.event_case() == proto::ProgressEvent::EVENT_NOT_SET;
}

std::string JsonLine(const proto::ProgressEvent& event) {
  google::protobuf::util::JsonPrintOptions json;
  json.preserve_proto_field_names = true;
  std::string line;
  if (!google::protobuf::util::MessageToJsonString(event, &line, json).ok()) return "";
  return line + "\n";
}

}  // namespace

ProgressPipe::ProgressPipe(int fd) : fd_(fd), broken_(fd < 0) {}

absl::Status ProgressPipe::Start() {
  return thread_.Start([this] { Run(); });
}

ProgressPipe::~ProgressPipe() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

void ProgressPipe::Add(proto::ProgressEvent event) {
  MutexLock lock(mu_);
  if (broken_) return;
  // Every queued event is also a sign of life, so the empty event adds nothing.
  if (event.event_case() == proto::ProgressEvent::EVENT_NOT_SET && !waiting_.empty()) return;
  // An event can be replaced only if it is the last one, or if only a pulse or a progress event follows it.
  const size_t looked_at = std::min<size_t>(waiting_.size(), 2);
  for (size_t i = waiting_.size() - looked_at; i < waiting_.size();) {
    const bool behind_passing =
        i + 1 == waiting_.size() || waiting_.back().has_pulse() || waiting_.back().has_progress();
    if (behind_passing && IsReplacedBy(waiting_[i], event)) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  const bool full = static_cast<int>(waiting_.size()) >= kMostWaiting;
  if (full && (event.has_epoch() || !event.note().empty())) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0 && (!full || event.has_finished())) {
    proto::ProgressEvent note;
    note.set_note(
        absl::StrCat("warning: ", std::exchange(left_out_, 0),
                     " lines about epochs and checkpoints were left out: they were not read in time"));
    waiting_.push_back(std::move(note));
  }
  waiting_.push_back(std::move(event));
  changed_.NotifyAll();
}

void ProgressPipe::Save(google::protobuf::RepeatedPtrField<proto::ProgressEvent>& unwritten) {
  MutexLock lock(mu_);
  if (broken_) return;
  if (writing_.number() > 0) *unwritten.Add() = writing_;
  for (const proto::ProgressEvent& event : waiting_) {
    if (event.number() > 0) *unwritten.Add() = event;
  }
}

void ProgressPipe::Run() {
  proto::ProgressEvent event;
  while (Take(event)) {
    const std::string line = JsonLine(event);
    if (WriteFully(fd_, line.data(), static_cast<int64_t>(line.size()), "progress").ok()) continue;
    // The reader is gone. If the launcher has ended, the chief learns it from the end of its own standard
    // input.
    MutexLock lock(mu_);
    broken_ = true;
    waiting_.clear();
  }
}

bool ProgressPipe::Take(proto::ProgressEvent& event) {
  MutexLock lock(mu_);
  while (waiting_.empty() && !ending_) changed_.Wait(mu_);
  if (waiting_.empty()) return false;
  event = std::move(waiting_.front());
  waiting_.pop_front();
  writing_ = event;
  return true;
}

}  // namespace tethys
