// The course of a task (a worker or a parameter server): which orders of the chief are possible in which
// state, and which order the task carries out now. Orders and results go in, duties and messages come out; no
// clock, no transport. Thread-compatible.
//
//   joined --Setup--> set up --Form--> idle --order--> idle ... --Stop--> ended
//
// Between an order and OnDone the task is busy with it.
//
// OrderReader (order_reader.h) hands the orders of a session to the course. A worker's course
// (workers/worker_course.h) also takes orders while the worker is busy with a segment.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_COURSE_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_COURSE_H_

#include <utility>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Invariants:
//  1. A task carries out one order at a time. The first order is Setup, the second is Form, and no later
//  order is Setup or Form.
//  2. Each order that the task carries out after Form is an order for the task's role.
class TaskCourse {
 public:
  explicit TaskCourse(proto::Role role) : role_(role) {}
  virtual ~TaskCourse() = default;

  // Whether the task takes an order now. If it does not, orders wait in the session.
  virtual bool takes_orders() const { return !busy_ && !ended(); }
  // Whether the task has nothing to do until an order arrives. Implies takes_orders().
  virtual bool waits() const { return TaskCourse::takes_orders(); }
  // Whether the chief has ended the job without a failure.
  bool ended() const { return stage_ == Stage::kEnded; }

  // Takes an order. Requires takes_orders(). Aborted: the chief ended the job because of a failure, or while
  // the task was busy. Internal: the order is impossible in this state; the message names the order.
  absl::Status OnOrder(proto::ToTask order);

  // Whether there is an order to carry out.
  bool busy() const { return busy_; }
  // The order to carry out. Requires busy().
  const proto::ToTask& duty() const { return duty_; }
  // Notes that the order has been carried out. Requires busy().
  void OnDone();

  // The messages to send to the chief now, in order.
  std::vector<proto::FromTask> TakeMessages() { return std::exchange(messages_, {}); }

 protected:
  // Called when the task begins to carry out `duty`.
  virtual void Begin(const proto::ToTask& /*duty*/) {}
  // Called when an order arrives while the task is busy. Returns the errors of OnOrder.
  virtual absl::Status OnOrderWhileBusy(const proto::ToTask& order) { return Impossible(order); }

  // An Internal error that names the order.
  absl::Status Impossible(const proto::ToTask& order) const;
  std::vector<proto::FromTask>& messages() { return messages_; }

 private:
  enum class Stage { kJoined, kSetUp, kIdle, kEnded };

  const proto::Role role_;
  Stage stage_ = Stage::kJoined;
  bool busy_ = false;
  proto::ToTask duty_;
  std::vector<proto::FromTask> messages_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_COURSE_H_
