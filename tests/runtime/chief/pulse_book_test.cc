// Tests pulses (the chief's periodic reports on all tasks), which are made from step records, resource
// samples and the roster of tasks.
#include "runtime/chief/pulse_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

class PulseBookTest : public ::testing::Test {
 protected:
  PulseBookTest() {
    for (int i = 0; i < 3; ++i) Join({proto::WORKER, i});
    Join({proto::PS, 0});
  }
  void Join(TaskId id) {
    TaskState& task = roster_.at(id);
    task.Begin(id, 1, now_);
    roster_.TakesPart(id);
    task.member.set_host("slave1");
    task.last_heard = now_;
    task.ready = true;
  }
  // Records `count` steps of the worker, each of which took `ms` milliseconds.
  void Steps(int worker, int count, int64_t ms, int64_t staleness = 0) {
    proto::StepRecords records;
    for (int i = 0; i < count; ++i) {
      proto::StepRecord& record = *records.add_record();
      record.set_data_ns(1 * kMillisecond);
      record.set_forward_ns(2 * kMillisecond);
      record.set_backward_ns(3 * kMillisecond);
      record.set_exchange_ns((ms - 6) * kMillisecond);
      record.set_total_ns(ms * kMillisecond);
      record.set_staleness(staleness);
    }
    book_.AddSteps(worker, records);
  }
  proto::Pulse Take() { return book_.Take(roster_, now_, 12.5); }

  Nanoseconds now_ = 100 * kSecond;
  Roster roster_{Membership::Of(Plan("workers: 3 strategy { parameter_server { asynchronous {} } }")), 0};
  PulseBook book_{/*stale=*/true};
};

TEST_F(PulseBookTest, StepsBeforeAReplacementJoinedDoNotCountAsItsLag) {
  roster_.at({proto::WORKER, 0}).step = 6366;
  TaskState& replacement = roster_.at({proto::WORKER, 1});
  replacement.step = 829;
  replacement.missed = 5500;
  roster_.at({proto::WORKER, 2}).step = 4124;
  const proto::Pulse pulse = Take();
  EXPECT_EQ(pulse.task(0).lag(), 0);
  EXPECT_EQ(pulse.task(1).lag(), 0);
  EXPECT_EQ(pulse.task(2).lag(), 6329 - 4124);
}

TEST_F(PulseBookTest, PulseListsWorkersBeforeServersWithTheStateOfEachTask) {
  roster_.at({proto::WORKER, 0}).ready = false;
  roster_.at({proto::WORKER, 1}).last_heard = now_ - 3 * kSecond;
  roster_.Lose({proto::WORKER, 2});
  const proto::Pulse pulse = Take();
  EXPECT_EQ(pulse.seconds(), 12.5);
  ASSERT_EQ(pulse.task_size(), 4);
  EXPECT_EQ(pulse.task(0).state(), proto::TaskPulse::STARTING);
  EXPECT_EQ(pulse.task(1).state(), proto::TaskPulse::SILENT);
  EXPECT_EQ(pulse.task(1).silent_seconds(), 3);
  EXPECT_EQ(pulse.task(2).state(), proto::TaskPulse::LOST);
  EXPECT_EQ(pulse.task(3).role(), "ps");
  EXPECT_EQ(pulse.task(3).state(), proto::TaskPulse::RUNNING);
  EXPECT_EQ(pulse.task(3).host(), "slave1");
}

TEST_F(PulseBookTest, QuartilesOfStepTimesAreOverTheStepsSinceTheLastPulse) {
  Steps(0, 3, 10, 4);
  Steps(0, 1, 30, 8);
  const proto::TaskPulse first = Take().task(0);
  EXPECT_DOUBLE_EQ(first.step_seconds().median(), 0.01);
  EXPECT_DOUBLE_EQ(first.step_seconds().upper(), 0.015);
  EXPECT_DOUBLE_EQ(first.compute_seconds().median(), 0.006);
  EXPECT_DOUBLE_EQ(first.exchange_seconds().lower(), 0.004);
  EXPECT_DOUBLE_EQ(first.staleness(), 5);
  EXPECT_FALSE(Take().task(0).has_step_seconds());
}

TEST_F(PulseBookTest, HistogramOfStepTimesCountsAllStepsOfTheJob) {
  Steps(0, 2, 10);   // Two steps for the bucket of times up to 2^7 x 100 us.
  Steps(1, 1, 100);  // One step for the bucket of times up to 2^10 x 100 us.
  Take();
  Steps(2, 1, 1'000'000);  // One step longer than every bucket's bound.
  const proto::Pulse pulse = Take();
  ASSERT_EQ(pulse.step_bucket_size(), 20);
  EXPECT_EQ(pulse.step_bucket(7), 2);
  EXPECT_EQ(pulse.step_bucket(10), 1);
  EXPECT_EQ(pulse.step_bucket(19), 1);
  EXPECT_DOUBLE_EQ(pulse.step_seconds_sum(), 1000.12);
}

TEST_F(PulseBookTest, QuartilesOfManyStepsAreOverTheNewestSteps) {
  Steps(0, 1000, 10);
  Steps(0, static_cast<int>(PulseBook::kMostSteps), 20);
  const proto::TaskPulse task = Take().task(0);
  EXPECT_DOUBLE_EQ(task.step_seconds().lower(), 0.02);
  EXPECT_DOUBLE_EQ(task.step_seconds().upper(), 0.02);
}

TEST_F(PulseBookTest, LagIsTheNumberOfStepsBehindTheMedianWorker) {
  roster_.at({proto::WORKER, 0}).step = 40;
  roster_.at({proto::WORKER, 1}).step = 100;
  roster_.at({proto::WORKER, 2}).step = 120;
  const proto::Pulse pulse = Take();
  EXPECT_EQ(pulse.task(0).lag(), 60);
  EXPECT_EQ(pulse.task(1).lag(), 0);
  EXPECT_EQ(pulse.task(2).lag(), 0);
}

TEST_F(PulseBookTest, ResourceRatesComeFromTheLastSampleOfTheProcess) {
  google::protobuf::RepeatedPtrField<proto::ResourceSample> samples;
  proto::ResourceSample& own = *samples.Add();
  own.set_interval_ns(2 * kSecond);
  own.set_cpu_percent(150);
  own.set_resident_bytes(1 << 20);
  own.set_network_in_bytes(4000);
  own.set_network_out_bytes(1000);
  samples.Add()->set_machine(true);
  samples.Add();  // A sample with an interval of 0 has no rates.
  book_.AddSamples({proto::WORKER, 1}, "slave1", samples);
  const proto::Pulse pulse = Take();
  EXPECT_FALSE(pulse.task(0).has_cpu_percent());
  EXPECT_EQ(pulse.task(1).cpu_percent(), 150);
  EXPECT_EQ(pulse.task(1).network_in_bytes_per_second(), 2000);
  EXPECT_EQ(pulse.task(1).network_out_bytes_per_second(), 500);
  EXPECT_FALSE(pulse.task(1).has_gpu_percent());
}

TEST_F(PulseBookTest, StalenessCountsCoverAllStepsOfTheJob) {
  Steps(0, 2, 10, 0);
  Take();
  Steps(1, 3, 10, 2);
  EXPECT_THAT(Take().staleness_count(), ElementsAre(2, 0, 3));
  Steps(2, 1, 10, 1'000'000);
  const proto::Pulse pulse = Take();
  ASSERT_EQ(pulse.staleness_count_size(), 64);
  EXPECT_EQ(pulse.staleness_count(63), 1);
}

TEST_F(PulseBookTest, CpuOfTheJobOnAMachineIsTheSumOverTheJobsProcessesOnThatMachine) {
  // Only samples of machines have a boot id.
  const auto process = [](double cpu_percent) {
    proto::ResourceSample sample;
    sample.set_interval_ns(kSecond);
    sample.set_cpu_percent(cpu_percent);
    return sample;
  };
  const auto machine = [&](const char* boot_id, double cpu_percent) {
    proto::ResourceSample sample = process(cpu_percent);
    sample.set_machine(true);
    sample.set_boot_id(boot_id);
    sample.set_cores(2);
    return sample;
  };
  const auto samples = [](const std::vector<proto::ResourceSample>& all) {
    return PulseBook::Samples(all.begin(), all.end());
  };
  for (int i = 0; i < 3; ++i) roster_.at({proto::WORKER, i}).member.set_host(absl::StrCat("slave", i));
  roster_.at({proto::PS, 0}).member.set_host("master");
  // The hosts master and slave0 are one computer.
  book_.AddChiefSamples("master", samples({process(5), machine("a", 190)}));
  book_.AddSamples({proto::PS, 0}, "master", samples({process(20)}));
  book_.AddSamples({proto::WORKER, 0}, "slave0", samples({process(60), machine("a", 191)}));
  book_.AddSamples({proto::WORKER, 1}, "slave1", samples({process(70), machine("b", 71)}));
  book_.AddSamples({proto::WORKER, 2}, "slave2", samples({process(50), machine("c", 55)}));
  roster_.Lose({proto::WORKER, 2});
  std::vector<std::string> found;
  const proto::Pulse taken = Take();
  for (const proto::MachinePulse& pulse : taken.machine()) {
    found.push_back(absl::StrCat(pulse.host(), " ", pulse.cpu_percent(), " ", pulse.job_cpu_percent(), " ",
                                 pulse.cores()));
  }
  EXPECT_THAT(found, ElementsAre("master 190 85 2", "slave0 191 85 2", "slave1 71 70 2", "slave2 55 0 2"));
}

TEST_F(PulseBookTest, StalenessIsAbsentIfUpdatesAreSynchronous) {
  PulseBook synchronous(/*stale=*/false);
  proto::StepRecords records;
  records.add_record()->set_total_ns(kMillisecond);
  synchronous.AddSteps(0, records);
  const proto::Pulse pulse = synchronous.Take(roster_, now_, 1);
  EXPECT_TRUE(pulse.task(0).has_step_seconds());
  EXPECT_FALSE(pulse.task(0).has_staleness());
  EXPECT_EQ(pulse.staleness_count_size(), 0);
}

}  // namespace
}  // namespace tethys
