// The course of a task (a worker or a parameter server): which orders of the chief are possible in which
// state, and which order the task carries out now. The course takes orders and results, and returns duties
// (orders to carry out) and messages to the chief. It has no clock and no transport. Thread-compatible.
//
//   joined --Setup--> set up --Form--> idle --order--> idle ... --Stop--> ended
//                                 halted --Form--> idle
//
// Between an order and OnDone the task is busy with it. A task that is in a group becomes halted when it has
// carried out a Halt, or has left an order because its group broke. A halted task ignores all orders of the
// old group that the chief sent before it knew of the halt.
//
// OrderReader (order_reader.h) hands the orders of a session to the course. A worker's course
// (workers/worker_course.h) also takes orders while the worker is busy with a segment.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_COURSE_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_COURSE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Invariants:
//  1. A task carries out one order at a time. Apart from Halt, which comes at any time, the first order is
//     Setup and the second is Form.
//  2. Each order that the task carries out in a group is an order for the task's role.
//  3. A later Form comes only to a halted task, and generation() only grows.
class TaskCourse {
 public:
  explicit TaskCourse(proto::Role role) : role_(role) {}
  virtual ~TaskCourse() = default;

  // True if the task takes an order now. Otherwise orders wait in the session.
  virtual bool takes_orders() const { return !busy_ && !ended(); }
  // True if the task has nothing to do until an order arrives. Implies takes_orders().
  virtual bool waits() const { return TaskCourse::takes_orders(); }
  // True if the chief has ended the job without a failure.
  bool ended() const { return stage_ == Stage::kEnded; }

  // Takes an order. Requires takes_orders(). Aborted: the chief ended the job because of a failure, or while
  // the task was busy. Internal: the order is impossible in this state; the message names the order.
  absl::Status OnOrder(proto::ToTask order);

  // The generation of the newest group that the task was ordered to join; 0: none yet.
  uint32_t generation() const { return generation_; }

  // True if there is an order to carry out.
  bool busy() const { return busy_; }
  // The order to carry out. Requires busy().
  const proto::ToTask& duty() const { return duty_; }
  // True if Halt came while the task was busy. The task then leaves or completes its current order as soon as
  // it can, and carries out Halt next.
  bool halts() const { return halt_.has_value(); }

  // Notes that the order has been carried out. Requires busy().
  void OnDone();
  // Notes that the task no longer carries out its order, because its group was halted or broke. Requires
  // busy() with an order other than Setup and Halt.
  void OnLeft();
  // Adds `halted` to the messages, with the generation of the task.
  void SayHalted(proto::Halted halted);

  // The messages to send to the chief now, in order.
  std::vector<proto::FromTask> TakeMessages() { return std::exchange(messages_, {}); }

 protected:
  // Called when the task begins to carry out `duty`.
  virtual void Begin(const proto::ToTask& /*duty*/) {}
  // Called when the task has left its order.
  virtual void Leave() {}
  // Called when an order other than Halt arrives while the task is busy. Returns the errors of OnOrder.
  virtual absl::Status OnOrderWhileBusy(const proto::ToTask& order) { return Impossible(order); }

  // An Internal error that names the order.
  absl::Status Impossible(const proto::ToTask& order) const;
  std::vector<proto::FromTask>& messages() { return messages_; }

 private:
  enum class Stage { kJoined, kSetUp, kIdle, kHalted, kEnded };
  // The reaction of the task to an order.
  enum class Fit {
    kDuty,     // The task carries the order out.
    kLate,     // The order is for a segment that the task has ended or a group that it has left: no effect.
    kForeign,  // The chief must not send this order to the task.
  };

  Fit FitOf(const proto::ToTask& order) const;
  Fit FitInGroup(const proto::ToTask& order) const;
  void BeginDuty(proto::ToTask duty);
  void EndDuty(Stage stage);

  const proto::Role role_;
  Stage stage_ = Stage::kJoined;
  uint32_t generation_ = 0;
  bool busy_ = false;
  proto::ToTask duty_;
  absl::optional<proto::ToTask> halt_;  // A Halt that came while the task was busy.
  std::vector<proto::FromTask> messages_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_COURSE_H_
