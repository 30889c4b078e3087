// Tests WorkerCourse by scenarios (scripts/README.md), and tests that the steps of all workers together cover
// a segment.
#include "workers/worker_course.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/testing/script.h"

namespace tethys {
namespace {

// A Setup order with a plan of `strategy`, the text of a Strategy message.
proto::ToTask SetupOrder(const std::string& strategy, int workers, int64_t global_batch) {
  proto::ToTask order;
  proto::JobPlan& plan = *order.mutable_setup()->mutable_plan();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(strategy, plan.mutable_job()->mutable_strategy()))
      << strategy;
  plan.mutable_job()->set_workers(workers);
  plan.set_global_batch(global_batch);
  return order;
}

// The indices of all workers.
std::vector<int> All(int workers) {
  std::vector<int> indices(workers);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// A Form order with a group of the workers with these indices and one server.
proto::ToTask FormOrder(const std::vector<int>& workers, uint32_t generation) {
  proto::ToTask order;
  proto::Group& group = *order.mutable_form()->mutable_group();
  group.set_generation(generation);
  for (const int worker : workers) {
    proto::Member& member = *group.add_member();
    member.set_role(proto::WORKER);
    member.set_index(worker);
  }
  group.add_member()->set_role(proto::PS);
  return order;
}

std::string PositionsText(Slice slice) { return absl::StrCat("[", slice.begin, ",", slice.end, ")"); }

// Runs one scenario.
class Scenario {
 public:
  std::string Do(const std::string& command) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    if (words[0] == "worker") return Make(command.substr(7));
    if (course_ == nullptr) return "unknown";
    std::vector<std::string> follows;
    if (words[0] == "ahead") {
      int most = 0;
      if (!absl::SimpleAtoi(words.at(1), &most)) return "unknown";
      for (int i = 0; i < most; ++i) {
        const absl::optional<BatchAssignment> batch = course_->Announce();
        if (!batch.has_value()) break;
        follows.push_back(PositionsText(batch->positions));
      }
    } else if (words[0] == "step") {
      const absl::optional<BatchAssignment> batch = course_->BeginStep();
      if (batch.has_value()) course_->EndStep();
      follows.push_back(batch.has_value()
                            ? absl::StrCat("step ", batch->step, " ", PositionsText(batch->positions), " of ",
                                           batch->global_count)
                            : "none left");
    } else if (words[0] == "done") {
      if (course_->duty().has_run()) course_->EndRun({});
      course_->OnDone();
    } else if (words[0] == "leave") {
      course_->OnLeft();
    } else if (words[0] == "say") {
      proto::Halted halted;
      int64_t applied = 0;
      if (words.size() > 1 && absl::SimpleAtoi(words[1], &applied)) halted.set_applied(applied);
      course_->SayHalted(halted);
    } else {
      const bool before = course_->busy();
      const absl::Status status = course_->OnOrder(Order(words));
      if (!status.ok()) follows.push_back(StatusText(status));
      if (!before && course_->busy()) follows.push_back("begins");
    }
    if (course_->busy() && course_->duty().has_halt()) follows.push_back("halts");
    for (const proto::FromTask& message : course_->TakeMessages()) follows.push_back(Text(message));
    follows.push_back(course_->ended()          ? "ended"
                      : course_->waits()        ? "waits"
                      : course_->takes_orders() ? "listens"
                                                : "busy");
    return absl::StrJoin(follows, "; ");
  }

 private:
  std::string Make(const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, "; ");
    if (parts.size() != 3) return "unknown";
    const std::vector<std::string> numbers = absl::StrSplit(parts[0], " of ");
    int index = 0, workers = 0;
    int64_t batch = 0;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &index) ||
        !absl::SimpleAtoi(numbers[1], &workers) ||
        !absl::SimpleAtoi(absl::StripPrefix(parts[2], "batch "), &batch)) {
      return "unknown";
    }
    setup_ = SetupOrder(parts[1], workers, batch);
    workers_ = workers;
    course_ = std::make_unique<WorkerCourse>(index);
    return course_->waits() ? "waits" : "busy";
  }

  proto::ToTask Order(const std::vector<std::string>& words) const {
    const auto number = [&](size_t i) {
      int64_t value = -1;
      EXPECT_TRUE(i < words.size() && absl::SimpleAtoi(words[i], &value)) << absl::StrJoin(words, " ");
      return value;
    };
    proto::ToTask order;
    if (words[0] == "setup") return setup_;
    if (words[0] == "form") {
      std::vector<int> workers;
      for (size_t i = 2; i < words.size(); ++i) workers.push_back(static_cast<int>(number(i)));
      return FormOrder(workers.empty() ? All(workers_) : workers, static_cast<uint32_t>(number(1)));
    }
    if (words[0] == "halt") order.mutable_halt()->set_generation(static_cast<uint32_t>(number(1)));
    if (words[0] == "run") {
      order.mutable_run()->set_number(number(1));
      order.mutable_run()->set_begin(number(2));
      order.mutable_run()->set_end(number(3));
      order.mutable_run()->set_first_step(number(4));
      order.mutable_run()->set_generation(words.size() > 5 ? static_cast<uint32_t>(number(5))
                                                           : course_->generation());
    } else if (words[0] == "lease") {
      order.mutable_lease()->set_run(number(1));
      for (size_t i = 2; i < words.size(); ++i) {
        if (words[i] == "last") {
          order.mutable_lease()->set_last(true);
          continue;
        }
        // A word describes a lease: BEGIN-END[@CLOCK][/STEP_BEGIN-STEP_END]
        proto::LeaseRange& range = *order.mutable_lease()->add_range();
        const std::vector<std::string> parts = absl::StrSplit(words[i], '/');
        const std::vector<std::string> clock = absl::StrSplit(parts[0], '@');
        const Slice mine = SliceOf(clock[0]);
        const Slice step = parts.size() > 1 ? SliceOf(parts[1]) : mine;
        int64_t at = 0;
        EXPECT_TRUE(clock.size() == 1 || absl::SimpleAtoi(clock[1], &at)) << words[i];
        range.set_begin(mine.begin);
        range.set_end(mine.end);
        range.set_clock(at);
        range.set_step_begin(step.begin);
        range.set_step_count(step.count());
      }
    } else if (words[0] == "pause") {
      order.mutable_pause()->set_run(number(1));
    } else if (words[0] == "cut") {
      order.mutable_cut()->set_run(number(1));
      order.mutable_cut()->set_steps(number(2));
    } else if (words[0] == "evaluate") {
      order.mutable_evaluate();
    } else if (words[0] == "save") {
      order.mutable_save();
    } else if (words[0] == "fence") {
      order.mutable_fence();
    } else if (words[0] == "stop") {
      order.mutable_stop()->set_failed(words.size() > 1);
      order.mutable_stop()->set_reason("enough");
    }
    return order;
  }

  static Slice SliceOf(const std::string& text) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(text, '-');
    Slice slice;
    EXPECT_TRUE(absl::SimpleAtoi(ends.first, &slice.begin) && absl::SimpleAtoi(ends.second, &slice.end))
        << text;
    return slice;
  }

  static std::string Text(const proto::FromTask& message) {
    if (message.has_pausing())
      return absl::StrCat("pausing ", message.pausing().run(), " after ", message.pausing().steps());
    if (message.has_lease_request()) return absl::StrCat("asks for ", message.lease_request().batches());
    if (message.has_run_done())
      return absl::StrCat("run done ", message.run_done().run(), " after ", message.run_done().steps());
    if (message.has_halted()) {
      const proto::Halted& halted = message.halted();
      return absl::StrCat("halted ", halted.generation(), " after ",
                          halted.has_applied() ? absl::StrCat(halted.applied()) : "nothing");
    }
    return message.ShortDebugString();
  }

  proto::ToTask setup_;
  int workers_ = 0;
  std::unique_ptr<WorkerCourse> course_;
};

class WorkerScriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WorkerScriptTest, ScriptedScenarioGivesTheAnswersInTheScript) {
  Scenario scenario;
  testing::ExpectGoesAsWritten(TETHYS_SCRIPTS, GetParam(),
                               [&](const std::string& command) { return scenario.Do(command); });
}

INSTANTIATE_TEST_SUITE_P(All, WorkerScriptTest, ::testing::ValuesIn(testing::ScriptsIn(TETHYS_SCRIPTS)),
                         [](const auto& script) { return script.param; });

// The WorkerCourse of the worker with this rank, after an order to run positions [100, 1000). Its group has
// all workers.
std::unique_ptr<WorkerCourse> Running(const std::string& strategy, int rank, int workers) {
  auto course = std::make_unique<WorkerCourse>(rank);
  for (const proto::ToTask& first : {SetupOrder(strategy, workers, 128), FormOrder(All(workers), 1)}) {
    EXPECT_TRUE(course->OnOrder(first).ok());
    course->OnDone();
  }
  proto::ToTask order;
  order.mutable_run()->set_number(1);
  order.mutable_run()->set_generation(1);
  order.mutable_run()->set_begin(100);
  order.mutable_run()->set_end(1000);
  EXPECT_TRUE(course->OnOrder(order).ok());
  return course;
}

TEST(WorkerCourseTest, WorkersTogetherUseEachSampleOfTheSegmentInOrderOfSteps) {
  constexpr int kWorld = 5;
  std::vector<std::unique_ptr<WorkerCourse>> workers;
  for (int rank = 0; rank < kWorld; ++rank) workers.push_back(Running("mirrored {}", rank, kWorld));
  int64_t at = 100;
  int steps = 0;
  while (true) {
    int64_t global = 0, begin = at;
    bool any = false;
    for (const auto& worker : workers) {
      worker->Announce();
      const auto batch = worker->BeginStep();
      if (!batch.has_value()) continue;
      worker->EndStep();
      any = true;
      EXPECT_EQ(batch->positions.begin, at);
      EXPECT_EQ(batch->step_begin, begin);
      EXPECT_EQ(batch->step, steps);
      at = batch->positions.end;
      global = batch->global_count;
    }
    if (!any) break;
    EXPECT_EQ(at - begin, global);
    ++steps;
  }
  EXPECT_EQ(at, 1000);
  EXPECT_EQ(steps, 8) << "seven steps of 128 samples and one of 4, in which the last worker has none";
}

}  // namespace
}  // namespace tethys
