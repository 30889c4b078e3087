// A fake session with the chief: it delivers the orders that a test has added, and keeps the messages that
// are sent.
#ifndef TETHYS_TESTS_RUNTIME_CLUSTER_SCRIPTED_SESSION_H_
#define TETHYS_TESTS_RUNTIME_CLUSTER_SCRIPTED_SESSION_H_

#include <deque>
#include <utility>
#include <vector>

#include "runtime/cluster/task_session.h"

namespace tethys::testing {

// If no order is left, Receive fails as on a broken session.
class ScriptedSession : public TaskSession {
 public:
  // Adds an empty order after all others, for the test to fill in.
  proto::ToTask& Add() { return orders_.emplace_back(); }
  // The number of orders that were added and not taken yet.
  size_t left() const { return orders_.size(); }
  const std::vector<proto::FromTask>& sent() const { return sent_; }

  absl::Status status() override { return absl::OkStatus(); }
  void Send(proto::FromTask message) override { sent_.push_back(std::move(message)); }
  absl::StatusOr<proto::ToTask> Receive() override {
    if (orders_.empty()) return absl::UnavailableError("nothing to receive");
    proto::ToTask order = orders_.front();
    orders_.pop_front();
    return order;
  }
  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    if (orders_.empty()) return absl::optional<proto::ToTask>();
    return absl::optional<proto::ToTask>(*Receive());
  }
  void CallAtOnce(UrgentCallback) override {}
  void StartBeating(Nanoseconds, Fill) override {}
  void Beat() override {}
  void BeatSoon() override {}
  bool peers_compute() const override { return false; }
  absl::Status ReadCheckpoint(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status WriteCheckpoint(int64_t, Source) override { return absl::OkStatus(); }
  absl::Status ReadDataFile(const std::string&, int64_t, TakeBytes) override { return absl::OkStatus(); }
  void Close() override {}

 private:
  std::deque<proto::ToTask> orders_;
  std::vector<proto::FromTask> sent_;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_RUNTIME_CLUSTER_SCRIPTED_SESSION_H_
