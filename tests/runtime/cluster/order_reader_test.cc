#include "runtime/cluster/order_reader.h"

#include <gtest/gtest.h>

#include "tests/runtime/cluster/scripted_session.h"

namespace tethys {
namespace {

// A worker's TaskCourse that takes orders even while the worker is busy. It answers each Pause, and takes no
// more orders after a Cut.
class PausingCourse final : public TaskCourse {
 public:
  PausingCourse() : TaskCourse(proto::WORKER) {}
  bool takes_orders() const override { return (busy() && !cut_) || TaskCourse::takes_orders(); }

 protected:
  absl::Status OnOrderWhileBusy(const proto::ToTask& order) override {
    if (!order.has_pause() && !order.has_cut()) return Impossible(order);
    if (order.has_pause()) messages().emplace_back().mutable_pausing()->set_steps(++pauses_);
    cut_ = order.has_cut();
    return absl::OkStatus();
  }

 private:
  int pauses_ = 0;
  bool cut_ = false;
};

class OrderReaderTest : public ::testing::Test {
 protected:
  testing::ScriptedSession session_;
};

TEST_F(OrderReaderTest, OrdersBehindTheOneBeingCarriedOutStayUnreadInTheSession) {
  TaskCourse course(proto::PS);
  OrderReader orders(session_, course);
  session_.Add().mutable_setup();
  session_.Add().mutable_form()->mutable_group()->set_generation(1);
  session_.Add().mutable_save();
  session_.Add().mutable_stop();
  ASSERT_TRUE(orders.Read().ok());
  EXPECT_TRUE(course.duty().has_setup());
  ASSERT_TRUE(orders.Read().ok());
  EXPECT_EQ(session_.left(), 3) << "the task is busy";
  course.OnDone();
  ASSERT_TRUE(orders.Read().ok());
  EXPECT_TRUE(course.duty().has_form());
  course.OnDone();
  ASSERT_TRUE(orders.Read().ok());
  EXPECT_TRUE(course.duty().has_save());
  course.OnDone();
  ASSERT_TRUE(orders.Read().ok());
  EXPECT_TRUE(course.ended());
  ASSERT_TRUE(orders.Read().ok()) << "a task that has ended waits for nothing";
}

TEST_F(OrderReaderTest, BusyTaskThatPollsAnswersEachOrderBeforeItReadsTheNext) {
  PausingCourse course;
  OrderReader orders(session_, course);
  session_.Add().mutable_setup();
  ASSERT_TRUE(orders.Read().ok()) << "Read does not wait once the task is busy";
  session_.Add().mutable_pause();
  session_.Add().mutable_pause();
  session_.Add().mutable_evaluate();
  EXPECT_TRUE(absl::IsInternal(orders.Read()));
  ASSERT_EQ(session_.sent().size(), 2) << "both pauses were answered before the order that does not fit";
  EXPECT_EQ(session_.sent()[1].pausing().steps(), 2);
  session_.Add().mutable_cut();
  session_.Add().mutable_save();
  ASSERT_TRUE(orders.Read().ok());
  EXPECT_EQ(session_.left(), 1) << "an order behind the cut stays in the session";
}

TEST_F(OrderReaderTest, BrokenSessionFailsTheReadOfATaskThatWaitsForOrders) {
  TaskCourse course(proto::WORKER);
  OrderReader orders(session_, course);
  EXPECT_TRUE(absl::IsUnavailable(orders.Read()));
}

class TaskCourseTest : public ::testing::Test {
 protected:
  // Returns the error with which a task of this role, in a group, refuses the order; "" if the task takes it.
  static std::string Refusal(proto::Role role, const proto::ToTask& order) {
    TaskCourse course(role);
    proto::ToTask setup, form;
    setup.mutable_setup();
    form.mutable_form()->mutable_group()->set_generation(1);
    for (const proto::ToTask& first : {setup, form}) {
      EXPECT_TRUE(course.OnOrder(first).ok());
      course.OnDone();
    }
    return std::string(course.OnOrder(order).message());
  }
};

TEST_F(TaskCourseTest, RefusalOfAnOrderForAnotherRoleNamesTheOrder) {
  proto::ToTask fence, run;
  fence.mutable_fence();
  run.mutable_run();
  EXPECT_EQ(Refusal(proto::PS, fence), "");
  run.mutable_run()->set_generation(1);
  EXPECT_EQ(Refusal(proto::WORKER, run), "");
  EXPECT_EQ(Refusal(proto::WORKER, fence),
            "the chief sent the order 'fence', which this worker cannot carry out");
  EXPECT_NE(Refusal(proto::PS, run), "");
  EXPECT_NE(Refusal(proto::PS, proto::ToTask()), "") << "an empty order";
}

}  // namespace
}  // namespace tethys
