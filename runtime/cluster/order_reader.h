// The only reader of a task's session: hands the chief's orders to the task's TaskCourse, and sends the
// messages with which the course answers. Used by the thread that runs LiveAsTask.
#ifndef TETHYS_RUNTIME_CLUSTER_ORDER_READER_H_
#define TETHYS_RUNTIME_CLUSTER_ORDER_READER_H_

#include "runtime/base/status.h"
#include "runtime/cluster/task_course.h"
#include "runtime/cluster/task_session.h"

namespace tethys {

class OrderReader {
 public:
  // `session` and `course` must outlive the reader.
  OrderReader(TaskSession& session, TaskCourse& course) : session_(session), course_(course) {}

  // Hands over the orders that have arrived, as long as the course takes orders. Blocks while the course
  // waits for an order. Returns the error of the course. Unavailable: the session broke.
  absl::Status Read();

  // Sends the course's messages, after the messages that were sent before.
  void Answer();

  TaskCourse& course() { return course_; }

 private:
  TaskSession& session_;
  TaskCourse& course_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_ORDER_READER_H_
