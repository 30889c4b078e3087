// A session between a task and a chief that are threads of one test: orders and messages go through queues.
#ifndef TETHYS_TESTS_WORKERS_QUEUE_SESSION_H_
#define TETHYS_TESTS_WORKERS_QUEUE_SESSION_H_

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_session.h"

namespace tethys::testing {

// A message of a task to the chief, or the news that the task is lost.
struct TaskMessage {
  int task = 0;
  uint32_t incarnation = 0;
  bool lost = false;
  proto::FromTask message = {};
};

// The messages of all tasks, in the order in which they were sent.
class Inbox {
 public:
  void Add(TaskMessage message) {
    MutexLock lock(mu_);
    messages_.push_back(std::move(message));
    changed_.NotifyAll();
  }
  TaskMessage Take() {
    MutexLock lock(mu_);
    while (messages_.empty()) changed_.Wait(mu_);
    TaskMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<TaskMessage> messages_ ABSL_GUARDED_BY(mu_);
};

// A session whose orders come from Deliver, and whose messages go to an inbox.
class QueueSession final : public TaskSession {
 public:
  QueueSession(int task, uint32_t incarnation, Inbox& inbox)
      : task_(task), incarnation_(incarnation), inbox_(inbox) {}

  void Deliver(const proto::ToTask& order) {
    if (order.has_halt()) {
      MutexLock lock(urgent_mu_);
      if (urgent_) urgent_(order);
    }
    MutexLock lock(mu_);
    orders_.push_back(order);
    changed_.NotifyAll();
  }

  // Ends the worker as if its process were killed: all its exchange ends without a farewell, and the chief
  // gets no message of it any more but its loss. Any thread may call it.
  void Kill() {
    {
      MutexLock lock(mu_);
      if (dead_) return;
      dead_ = true;
      changed_.NotifyAll();
    }
    {
      MutexLock lock(urgent_mu_);
      proto::ToTask order;
      order.mutable_halt()->set_generation(~0U);
      if (urgent_) urgent_(order);
    }
    inbox_.Add({.task = task_, .incarnation = incarnation_, .lost = true});
  }

  // Ends the worker as a failure of its own does: it takes leave of the other workers. Any thread may call
  // it.
  void Fail() {
    {
      MutexLock lock(mu_);
      if (dead_) return;
      mute_ = true;
    }
    proto::ToTask order;
    order.mutable_stop()->set_failed(true);
    Deliver(order);
    inbox_.Add({.task = task_, .incarnation = incarnation_, .lost = true});
  }

  absl::Status status() override {
    MutexLock lock(mu_);
    return StatusNow();
  }
  void Send(proto::FromTask message) override {
    MutexLock lock(mu_);
    if (dead_ || mute_) return;
    inbox_.Add({.task = task_, .incarnation = incarnation_, .message = std::move(message)});
  }
  absl::StatusOr<proto::ToTask> Receive() override {
    MutexLock lock(mu_);
    while (orders_.empty() && !dead_) changed_.Wait(mu_);
    TETHYS_RETURN_IF_ERROR(StatusNow());
    proto::ToTask order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }
  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    {
      MutexLock lock(mu_);
      TETHYS_RETURN_IF_ERROR(StatusNow());
      if (orders_.empty()) return absl::optional<proto::ToTask>();
    }
    TETHYS_ASSIGN_OR_RETURN(proto::ToTask order, Receive());
    return absl::optional<proto::ToTask>(std::move(order));
  }
  void CallAtOnce(UrgentCallback urgent) override {
    MutexLock lock(urgent_mu_);
    urgent_ = std::move(urgent);
  }
  void StartBeating(Nanoseconds, Fill fill) override {
    MutexLock lock(beat_mu_);
    fill_ = std::move(fill);
  }
  void Beat() override {
    MutexLock lock(beat_mu_);
    proto::Heartbeat heartbeat;
    std::vector<proto::FromTask> before;
    fill_(heartbeat, before);
    for (proto::FromTask& message : before) Send(std::move(message));
  }
  void BeatSoon() override {}
  bool peers_compute() const override { return false; }
  absl::Status ReadCheckpoint(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status ReadDataFile(const std::string&, int64_t, TakeBytes) override { return absl::OkStatus(); }
  absl::Status WriteCheckpoint(int64_t, Source source) override {
    std::map<int, std::vector<float>> parts;
    TETHYS_RETURN_IF_ERROR(source([&](int part, int64_t, absl::Span<const float> values) {
      parts[part].insert(parts[part].end(), values.begin(), values.end());
      return absl::OkStatus();
    }));
    saved_ = std::move(parts);
    return absl::OkStatus();
  }
  void Close() override {}

  // The parameters and slots of the last save, by part. Read after SaveDone.
  const std::map<int, std::vector<float>>& saved() const { return saved_; }

 private:
  absl::Status StatusNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return dead_ ? absl::UnavailableError("the session broke") : absl::OkStatus();
  }

  const int task_;
  const uint32_t incarnation_;
  Inbox& inbox_;
  std::map<int, std::vector<float>> saved_;

  Mutex urgent_mu_;
  UrgentCallback urgent_ ABSL_GUARDED_BY(urgent_mu_);
  Mutex beat_mu_;  // Locked before mu_.
  Fill fill_ ABSL_GUARDED_BY(beat_mu_);
  Mutex mu_;
  CondVar changed_;
  std::deque<proto::ToTask> orders_ ABSL_GUARDED_BY(mu_);
  bool dead_ ABSL_GUARDED_BY(mu_) = false;
  bool mute_ ABSL_GUARDED_BY(mu_) = false;  // The chief gets no more messages of the worker.
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_WORKERS_QUEUE_SESSION_H_
