#include "deploy/report/trace.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/report/trace_writer.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kSteps[] =
    "rank,step,epoch,samples,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,total_ns,bytes_"
    "out,"
    "staleness\n"
    "0,7,1,128,1000000,1000,2000,3000,4000,0,10500,400,2\n"
    "1,7,1,128,1000500,1000,2000,3000,4000,500,11000,400,0\n";

// The trace's events, as parsed from JSON.
std::vector<google::protobuf::Struct> Events(const std::string& json) {
  google::protobuf::Struct trace;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &trace);
  EXPECT_TRUE(parsed.ok()) << parsed;
  std::vector<google::protobuf::Struct> events;
  for (const auto& event : trace.fields().at("traceEvents").list_value().values()) {
    events.push_back(event.struct_value());
  }
  return events;
}

std::string Text(const google::protobuf::Struct& event, const char* field) {
  return event.fields().at(field).string_value();
}
double Number(const google::protobuf::Struct& event, const char* field) {
  return event.fields().at(field).number_value();
}

// The slices of a row as "NAME BEGIN+DURATION", in microseconds.
std::vector<std::string> Slices(const std::string& json, const std::string& row) {
  std::vector<std::string> slices;
  double process = -1;
  for (const auto& event : Events(json)) {
    if (Text(event, "name") == "process_name" &&
        event.fields().at("args").struct_value().fields().at("name").string_value() == row) {
      process = Number(event, "pid");
    }
    if (Text(event, "ph") != "X" || Number(event, "pid") != process) continue;
    slices.push_back(absl::StrCat(Text(event, "name"), " ", Number(event, "ts"), "+", Number(event, "dur")));
  }
  return slices;
}

// The slices that overlap an earlier slice of the same part of a row, where neither slice contains the other:
// "NAME BEGIN+DURATION in NAME BEGIN+DURATION". Times are rounded to whole ns.
std::vector<std::string> Overlaps(const std::string& json) {
  struct Drawn {
    std::string text;
    int64_t begin, end;
  };
  std::map<std::pair<double, double>, std::vector<Drawn>> parts;
  std::vector<std::string> overlaps;
  for (const auto& event : Events(json)) {
    if (Text(event, "ph") != "X") continue;
    Drawn drawn = {absl::StrCat(Text(event, "name"), " ", Number(event, "ts"), "+", Number(event, "dur")),
                   std::llround(Number(event, "ts") * 1000), 0};
    drawn.end = drawn.begin + std::llround(Number(event, "dur") * 1000);
    std::vector<Drawn>& part = parts[{Number(event, "pid"), Number(event, "tid")}];
    for (const Drawn& other : part) {
      const bool apart = drawn.end <= other.begin || other.end <= drawn.begin;
      const bool within = drawn.begin >= other.begin && drawn.end <= other.end;
      const bool around = drawn.begin <= other.begin && drawn.end >= other.end;
      if (!apart && !within && !around) overlaps.push_back(absl::StrCat(drawn.text, " in ", other.text));
    }
    part.push_back(std::move(drawn));
  }
  return overlaps;
}

TEST(ChromeTraceTest, StepIsASliceThatContainsConsecutiveSlicesOfItsPhases) {
  EXPECT_THAT(
      Slices(ChromeTrace({.steps_csv = kSteps}, {}), "worker 0"),
      ElementsAre("step 7 1000+10.5", "data 1000+1", "forward 1001+2", "backward 1003+3", "exchange 1006+4"));
}

TEST(ChromeTraceTest, RowsAreNamedByWorkerAndEscapedHost) {
  proto::RunSummary summary;
  proto::TaskSummary& task = *summary.add_task();
  task.set_role("worker");
  task.set_index(1);
  task.set_host("a\"b\\\n");
  std::vector<std::string> names;
  for (const auto& event : Events(ChromeTrace({.steps_csv = kSteps}, summary))) {
    if (Text(event, "name") != "process_name") continue;
    names.push_back(event.fields().at("args").struct_value().fields().at("name").string_value());
  }
  EXPECT_THAT(names, ElementsAre("worker 0", "worker 1 on a\"b\\\n"));
}

TEST(ChromeTraceTest, PhasesEndWithTheirStep) {
  // On an asynchronous device the time of a step begins at the end of the previous step, but the times of its
  // phases do not.
  const std::string steps =
      "rank,step,epoch,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,total_ns\n"
      "0,1,1,1000000,1000,2000,6000,4000,0,10000\n"
      "0,2,1,1010000,1000,2000,7000,4000,0,10000\n";
  const std::string trace = ChromeTrace({.steps_csv = steps}, {});
  EXPECT_THAT(Overlaps(trace), IsEmpty());
  EXPECT_THAT(Slices(trace, "worker 0"), Contains("exchange 1009+1"));
}

TEST(ChromeTraceTest, ClockSetBackInAnotherAttemptDelaysNoStep) {
  const std::string steps =
      "rank,step,epoch,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,total_ns\n"
      "0,1,1,9000000000,0,0,0,0,0,10000\n"
      "0,1,1,5000000,0,0,0,0,0,10000\n";
  EXPECT_THAT(Slices(ChromeTrace({.steps_csv = steps}, {}), "worker 0"),
              ElementsAre("step 1 9e+06+10", "step 1 5000+10"));
}

TEST(ChromeTraceTest, RoundedTimesMakeNoSlicesOverlap) {
  TraceWriter writer([](const TraceRow& row) { return TraceRowText(row); });
  // The clock has run for eleven days, so doubles resolve times to 0.1 ns only.
  constexpr double kBegin = 1e12, kLength = 10.000501;
  writer.Slice(TraceRow(), 1, "a", kBegin, kLength);
  writer.Slice(TraceRow(), 1, "b", kBegin + kLength, 5);
  EXPECT_THAT(Overlaps(writer.Json()), IsEmpty());
}

TEST(ChromeTraceTest, NoStepsMakeAnEmptyTrace) { EXPECT_TRUE(Events(ChromeTrace({}, {})).empty()); }

// Two epochs of 20 samples on two workers and a server. A checkpoint after 10 samples interrupts the first
// epoch. A step takes 10 us: 1 us of data, 2 us of forward, 3 us of backward and 4 us of exchange. Its first
// gradients are ready after 4 us.
class CourseTraceTest : public ::testing::Test {
 protected:
  void AddStep(int rank, int epoch, int sample_begin, int begin_us) {
    const int step = sample_begin / 10;
    absl::StrAppend(&steps_, rank, ",", step, ",", epoch, ",", sample_begin, ",5,", begin_us,
                    "000,1000,2000,3000,4000,0,10000,400,0,4000 5000\n");
    absl::StrAppend(&journal_, "used ", rank, " ", step, " ", sample_begin, " 5\n");
    absl::StrAppend(&journal_, "applied 0 ", rank, " ", step + 1, " ", sample_begin, " 5 ", step + 1, "\n");
  }
  // Adds an attempt; the clock shows `clock` when the attempt begins to train.
  void AddAttempt(int clock) {
    journal_ += "attempt 0 0 0 20 2 1 ps_sync\n";
    AddStep(0, 1, 0, clock);
    AddStep(1, 1, 5, clock + 3);
    journal_ += "saved 1 0 10\n";
    AddStep(0, 1, 10, clock + 20);
    AddStep(1, 1, 15, clock + 21);
    journal_ += "epoch 0 20\n";
    AddStep(0, 2, 20, clock + 40);
    AddStep(1, 2, 25, clock + 40);
  }
  // Ends the last epoch, and saves a checkpoint.
  void EndEpoch() { journal_ += "epoch 1 20\nsaved 4 2 0\n"; }
  std::string Trace() {
    return ChromeTrace(
        {.steps_csv = steps_, .epochs_csv = epochs_, .resources_csv = resources_, .journal = journal_},
        summary_);
  }

  std::string steps_ =
      "rank,step,epoch,sample_begin,samples,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,"
      "total_ns,bytes_out,staleness,bucket_ready_ns\n";
  std::string epochs_ = "epoch,validation_seconds\n1,0.000004\n2,0.000004\n";
  std::string journal_;
  std::string resources_;
  proto::RunSummary summary_;
};

TEST_F(CourseTraceTest, ChiefHasSegmentsBarriersValidationsAndCheckpoints) {
  AddAttempt(1000);
  EndEpoch();
  EXPECT_THAT(Slices(Trace(), "chief"),
              ElementsAre("training, epoch 1 1000+13", "barrier 1010+3", "checkpoint 1013+7",
                          "training, epoch 1 1020+11", "barrier 1030+1", "validation 1031+4",
                          "training, epoch 2 1040+10", "validation 1050+4"));
}

TEST_F(CourseTraceTest, StartAndEndComeFromTheSummary) {
  AddAttempt(1000);
  EndEpoch();
  summary_.mutable_timing()->set_startup_seconds(0.0005);
  summary_.add_attempt()->set_total_seconds(0.0006);
  summary_.mutable_test()->set_loss(1);
  const std::vector<std::string> slices = Slices(Trace(), "chief");
  EXPECT_EQ(slices.front(), "start-up 500+500");
  EXPECT_EQ(slices.back(), "test and checkpoint 1054+46");
}

TEST_F(CourseTraceTest, WorkerWaitsAtBarrierForTheLastWorker) {
  AddAttempt(1000);
  const std::string trace = Trace();
  EXPECT_THAT(Slices(trace, "worker 0"), Contains("barrier 1010+3"));
  EXPECT_THAT(Slices(trace, "worker 1"), Not(Contains("barrier 1013+0")));
}

TEST_F(CourseTraceTest, StepAfterAClockWasSetBackIsShiftedToAvoidOverlap) {
  journal_ = "attempt 0 0 0 40 1 1 ps_sync\n";
  AddStep(0, 1, 0, 1000);
  AddStep(0, 1, 10, 1006);  // The clock was set back by at least 4 us.
  AddStep(0, 1, 20, 1017);
  AddStep(0, 1, 30, 1040);
  journal_ += "epoch 0 40\n";
  const std::string trace = Trace();
  EXPECT_THAT(Overlaps(trace), IsEmpty());
  EXPECT_THAT(Slices(trace, "worker 0"), AllOf(Contains("step 1 1010+10"), Contains("exchange 1016+4"),
                                               Contains("step 2 1020+10"), Contains("step 3 1040+10")));
  EXPECT_THAT(Slices(trace, "ps 0"), Contains("push of step 1 1014+6"));
}

TEST_F(CourseTraceTest, BarrierOfAWorkerEndsWhenAnyWorkerBeginsItsNextStep) {
  journal_ = "attempt 0 0 0 20 2 1 ps_sync\n";
  AddStep(0, 1, 0, 1000);
  // The clock of worker 1 has an error, so its step seems to end after worker 0 has gone on.
  AddStep(1, 1, 5, 1005);
  journal_ += "saved 1 0 10\n";
  AddStep(0, 1, 10, 1012);
  AddStep(1, 1, 15, 1016);
  journal_ += "epoch 0 20\n";
  const std::string trace = Trace();
  EXPECT_THAT(Overlaps(trace), IsEmpty());
  EXPECT_THAT(Slices(trace, "chief"), Contains("training, epoch 1 1000+12"));
  EXPECT_THAT(Slices(trace, "worker 0"), Contains("barrier 1010+2"));
}

TEST_F(CourseTraceTest, EpochThatDidNotEndHasNoBarrier) {
  AddAttempt(1000);
  EXPECT_THAT(Slices(Trace(), "chief"), Not(Contains("training, epoch 2 1040+10")));
}

TEST_F(CourseTraceTest, LostWorkerWaitsForNothing) {
  AddAttempt(1000);
  summary_.mutable_timing()->set_startup_seconds(0.0005);
  proto::WorkerLoss& loss = *summary_.add_worker_loss();
  loss.set_worker(0);
  // Worker 0 is lost while worker 1 makes the last step before the checkpoint.
  loss.set_seconds(0.000512);
  proto::ServerLoss& server = *summary_.add_server_loss();
  server.set_server(1);
  server.set_seconds(0.000513);
  const std::string trace = Trace();
  EXPECT_THAT(Slices(trace, "worker 0"), Not(Contains("barrier 1010+3")));
  EXPECT_THAT(Slices(trace, "chief"), Not(Contains("barrier 1010+3")));
  std::vector<std::string> moments;
  for (const auto& event : Events(trace)) {
    if (Text(event, "ph") == "i")
      moments.push_back(absl::StrCat(Text(event, "name"), " ", Number(event, "ts")));
  }
  EXPECT_THAT(moments, ElementsAre("lost worker 0 1012", "lost ps 1 1013"));
}

TEST_F(CourseTraceTest, PushLastsFromReadyGradientsToItsAnswer) {
  AddAttempt(1000);
  const std::string trace = Trace();
  EXPECT_THAT(Slices(trace, "ps 0"),
              ElementsAre("push of step 0 1004+6", "push of step 0 1007+6", "push of step 1 1024+6",
                          "push of step 1 1025+6", "push of step 2 1044+6", "push of step 2 1044+6"));
  for (const auto& event : Events(trace)) {
    if (Text(event, "name") != "push of step 2") continue;
    EXPECT_EQ(event.fields().at("args").struct_value().fields().at("version").number_value(), 3);
  }
}

TEST_F(CourseTraceTest, OfEarlierAttemptsOnlyWorkersStepsAreShown) {
  AddAttempt(5000);  // The clock of this attempt was another machine's.
  AddAttempt(1000);
  summary_.mutable_timing()->set_startup_seconds(0.0005);
  const std::string trace = Trace();
  EXPECT_THAT(Slices(trace, "worker 0"), Contains("step 0 5000+10"));
  EXPECT_THAT(
      Slices(trace, "chief"),
      ElementsAre("start-up 500+500", "training, epoch 1 1000+13", "barrier 1010+3", "checkpoint 1013+7",
                  "training, epoch 1 1020+11", "barrier 1030+1", "validation 1031+4"));
}

TEST_F(CourseTraceTest, CurvesAreOfTheLastAttemptOnTheChiefsClock) {
  AddAttempt(3000000);
  summary_.mutable_timing()->set_startup_seconds(1);
  resources_ =
      "seconds,host,process,cpu_percent,network_in_bytes,network_out_bytes\n"
      "9,vm,ps 0,99,0,0\n"
      "1,vm,ps 0,10,0,0\n1,vm,,400,0,0\n1,vm,other,5,0,0\n3,vm,ps 0,20,4000000,6000000\n";
  std::vector<std::string> points;
  for (const auto& event : Events(Trace())) {
    if (Text(event, "ph") != "C") continue;
    std::string point = absl::StrCat(Text(event, "name"), " at ", Number(event, "ts") / 1e6, ":");
    for (const char* value : {"of a core", "in", "out"}) {
      const auto& values = event.fields().at("args").struct_value().fields();
      if (values.count(value) > 0) absl::StrAppend(&point, " ", values.at(value).number_value());
    }
    points.push_back(point);
  }
  EXPECT_THAT(points, ElementsAre("CPU % at 3: 10", "CPU % at 5: 20", "network MB/s at 5: 2 3"));
}

TEST_F(CourseTraceTest, DamagedJournal_TraceStillHasTheStepsOfWorkers) {
  AddAttempt(1000);
  journal_ = "attempt x\nused 0\napplied -1 0 1 0 5 1\napplied 99999999 0 1 0 5 1\nsaved\n\nepoch 0 20";
  const std::string trace = Trace();
  EXPECT_THAT(Slices(trace, "chief"), IsEmpty());
  EXPECT_THAT(Slices(trace, "worker 1"), Contains("step 0 1003+10"));
}

}  // namespace
}  // namespace tethys
