#include "runtime/telemetry/timing_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/summary.h"
#include "tests/testing/message_changes.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

// A record whose data, forward, backward, exchange and update phases take 1, 2, 3, 4 and 0 tenths of `total`.
proto::StepRecord Record(int rank, int64_t step, Nanoseconds total, int64_t staleness = 0) {
  proto::StepRecord record;
  record.set_rank(rank);
  record.set_step(step);
  record.set_begin_ns(1000 * step);
  record.set_data_ns(total / 10);
  record.set_forward_ns(total / 5);
  record.set_backward_ns(3 * total / 10);
  record.set_exchange_ns(4 * total / 10);
  record.set_total_ns(total);
  record.set_bytes_out(100);
  record.set_bytes_in(50 + 10 * step);
  record.set_staleness(staleness);
  record.set_samples(128);
  record.set_loss_sum(0.5);
  return record;
}

class TimingCollectorTest : public ::testing::Test {
 protected:
  static constexpr int64_t kEpochLength = 100;
  TimingCollectorTest() {
    std::string pattern = ::testing::TempDir() + "/telemetry.XXXXXX";
    run_dir_ = mkdtemp(pattern.data());
  }
  ~TimingCollectorTest() override { EXPECT_TRUE(RemoveRecursively(run_dir_).ok()); }

  std::unique_ptr<TimingCollector> Open(int workers, bool lock_step = true) {
    auto collector = TimingCollector::Open(run_dir_, {.workers = workers,
                                                      .lock_step = lock_step,
                                                      .state = state_,
                                                      .epoch_length = kEpochLength,
                                                      .finished = finished_});
    EXPECT_TRUE(collector.ok()) << collector.status();
    return *std::move(collector);
  }
  static proto::EpochResult Second() {
    proto::EpochResult epoch;
    epoch.set_epoch(1);
    return epoch;
  }
  // Writes steps of an earlier attempt, each with its epoch and the position of its first sample.
  void WriteSteps(const std::vector<std::pair<int, int>>& places) {
    std::ofstream file(run_dir_ + "/steps.csv");
    file << kStepsCsvHeader << "\n";
    for (const auto& [epoch, begin] : places) {
      file << "0,1," << epoch << "," << begin << ",10,0,0,0,0,0,0,0,0,0,0,0,0,0,\n";
    }
  }
  void WriteEpochs(const std::vector<std::string>& lines) {
    std::ofstream file(run_dir_ + "/epochs.csv");
    file << kEpochsCsvHeader << "\n";
    for (const std::string& line : lines) file << line << "\n";
  }
  // Epoch and first sample for each line of steps.csv.
  std::vector<std::string> Places() {
    const std::string text = ReadFile(run_dir_ + "/steps.csv").value();
    std::vector<std::string> places;
    for (CsvReader line(text); line.Next();) {
      places.push_back(absl::StrCat(line.Text("epoch"), " ", line.Text("sample_begin")));
    }
    return places;
  }
  static void Add(TimingCollector& collector, const std::vector<proto::StepRecord>& list,
                  Nanoseconds offset = 0) {
    proto::StepRecords records;
    for (const proto::StepRecord& record : list) *records.add_record() = record;
    ASSERT_TRUE(collector.Add(records, offset).ok());
  }
  static proto::RunSummary Summary(const TimingCollector& collector, double training_seconds = 1) {
    proto::RunSummary summary;
    collector.FillSummary(training_seconds, summary);
    return summary;
  }
  std::vector<std::string> Lines(const std::string& file) {
    return absl::StrSplit(*ReadFile(run_dir_ + "/" + file), '\n', absl::SkipEmpty());
  }

  std::string run_dir_;
  proto::TrainingState state_;  // The state in which the attempt begins.
  bool finished_ = false;       // The job has nothing left to train.
};

TEST_F(TimingCollectorTest, ThroughputCountsSamplesWhoseRecordsWereLost) {
  const auto collector = Open(2);
  Add(*collector, {Record(0, 0, 100'000)});
  proto::RunSummary summary;
  summary.add_worker_loss()->set_unrecorded_samples(100);
  summary.add_group_change()->set_unrecorded_samples(28);
  collector->FillSummary(/*training_seconds=*/2, summary);
  EXPECT_EQ(summary.samples_recorded(), 128);
  EXPECT_DOUBLE_EQ(summary.timing().samples_per_second(), 128);
}

TEST_F(TimingCollectorTest, SummaryHasTheMeanTimeOfEachPhasePerStep) {
  const auto collector = Open(2);
  Add(*collector, {Record(0, 0, 100'000), Record(0, 1, 200'000)});
  Add(*collector, {Record(1, 0, 100'000), Record(1, 1, 400'000)});
  const proto::RunSummary summary = Summary(*collector, /*training_seconds=*/2);
  EXPECT_EQ(summary.steps_recorded(), 4);
  EXPECT_EQ(summary.samples_recorded(), 512);
  EXPECT_DOUBLE_EQ(summary.timing().samples_per_second(), 256);
  EXPECT_DOUBLE_EQ(summary.phases().total_us(), 200);
  EXPECT_DOUBLE_EQ(summary.phases().data_us(), 20);
  EXPECT_DOUBLE_EQ(summary.phases().forward_us(), 40);
  EXPECT_DOUBLE_EQ(summary.phases().backward_us(), 60);
  EXPECT_DOUBLE_EQ(summary.phases().exchange_us(), 80);
  EXPECT_DOUBLE_EQ(summary.communication().exposed_share(), 0.4);
  EXPECT_DOUBLE_EQ(summary.communication().bytes_out_per_step(), 100);
  EXPECT_DOUBLE_EQ(summary.communication().bytes_in_per_step(), 55);
}

TEST_F(TimingCollectorTest, LockStepIterationTakesTheStepTimeOfTheSlowestWorker) {
  const auto collector = Open(2, /*lock_step=*/true);
  Add(*collector,
      {Record(0, 0, kSecond), Record(0, 1, 2 * kSecond), Record(1, 0, kSecond), Record(1, 1, 4 * kSecond)});
  const proto::Timing timing = Summary(*collector).timing();
  EXPECT_DOUBLE_EQ(timing.first_iteration_seconds(), 1);
  EXPECT_DOUBLE_EQ(timing.tmi_avg_seconds(), 4);
  ASSERT_THAT(timing.tmi_estimate(), SizeIs(1));
  EXPECT_EQ(timing.tmi_estimate(0).iterations(), "2");
  EXPECT_DOUBLE_EQ(timing.tmi_estimate(0).seconds(), 4);
}

TEST_F(TimingCollectorTest, IterationTimesOfAsynchronousWorkersAreAveraged) {
  const auto collector = Open(3, /*lock_step=*/false);
  Add(*collector,
      {Record(0, 0, kSecond), Record(0, 1, 2 * kSecond), Record(1, 0, kSecond), Record(1, 1, 4 * kSecond)});
  EXPECT_DOUBLE_EQ(Summary(*collector).timing().tmi_avg_seconds(), 3);
}

TEST_F(TimingCollectorTest, BetaIncludesTheValidationTimeOfEveryEpoch) {
  const auto collector = Open(1);
  Add(*collector, {Record(0, 0, kSecond), Record(0, 1, 2 * kSecond), Record(0, 2, 2 * kSecond)});
  proto::EpochResult epoch;
  epoch.set_validation_seconds(0.5);
  epoch.set_barrier_seconds(0.25);
  ASSERT_TRUE(collector->AddEpoch(epoch).ok());
  ASSERT_TRUE(collector->AddEpoch(epoch).ok());
  const proto::Timing timing = Summary(*collector).timing();
  EXPECT_DOUBLE_EQ(timing.beta(), (1.0 + 1.0) / 4);
  EXPECT_DOUBLE_EQ(timing.barrier_seconds(), 0.5);
}

TEST_F(TimingCollectorTest, StalenessIsAHistogramOfBoundedSize) {
  const auto collector = Open(1, /*lock_step=*/false);
  Add(*collector, {Record(0, 0, 1, 0), Record(0, 1, 1, 2), Record(0, 2, 1, 2), Record(0, 3, 1, 1 << 20)});
  const proto::Communication communication = Summary(*collector).communication();
  std::vector<std::pair<int64_t, int64_t>> histogram;
  for (const proto::StalenessCount& count : communication.staleness()) {
    histogram.push_back({count.staleness(), count.steps()});
  }
  EXPECT_THAT(histogram, ElementsAre(Pair(0, 1), Pair(2, 2), Pair(9999, 1)));
  EXPECT_DOUBLE_EQ(communication.mean_staleness(), (4 + (1 << 20)) / 4.0);
}

TEST_F(TimingCollectorTest, SummaryOfARunWithoutStepsHasNoBetaAndNoPhases) {
  const proto::RunSummary summary = Summary(*Open(2), /*training_seconds=*/0);
  EXPECT_EQ(summary.steps_recorded(), 0);
  EXPECT_FALSE(summary.timing().has_beta());
  EXPECT_FALSE(summary.has_phases());
}

TEST_F(TimingCollectorTest, RecordOfARankThatIsNoWorkerIsRefused) {
  const auto collector = Open(2);
  for (const int rank : {2, -1}) {
    proto::StepRecords records;
    *records.add_record() = Record(0, 0, 1);
    *records.add_record() = Record(rank, 0, 1);
    EXPECT_EQ(collector->Add(records, 0).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Summary(*collector).steps_recorded(), 0);
}

TEST_F(TimingCollectorTest, StepTimesAreWrittenOnTheChiefsClock) {
  const auto collector = Open(4);
  proto::StepRecord record = Record(3, 7, 1000, 2);
  record.set_epoch(1);
  record.set_sample_begin(896);
  record.set_correct(97);
  record.set_labels(128);
  record.add_bucket_ready_ns(310);
  record.add_bucket_ready_ns(360);
  Add(*collector, {record}, /*offset=*/-500);
  ASSERT_TRUE(collector->Flush().ok());
  EXPECT_THAT(
      Lines("steps.csv"),
      ElementsAre(kStepsCsvHeader, "3,7,2,896,128,6500,100,200,300,400,0,1000,100,120,2,0.5,97,128,310 360"));
}

TEST_F(TimingCollectorTest, EpochsInTheTable_AreNumberedFromOneAndWrittenByFlush) {
  const auto collector = Open(1);
  proto::EpochResult epoch;
  epoch.set_step(422);
  epoch.set_train_loss(0.75);
  epoch.set_train_accuracy(0.5);
  epoch.set_train_seconds(2);
  ASSERT_TRUE(collector->AddEpoch(epoch).ok());
  epoch.set_epoch(1);
  epoch.set_validated(true);
  epoch.set_validation_loss(0.25);
  epoch.set_validation_accuracy(0.875);
  epoch.set_validation_mean_iou(0.5);
  ASSERT_TRUE(collector->AddEpoch(epoch).ok());
  ASSERT_TRUE(collector->Flush().ok());
  EXPECT_THAT(Lines("epochs.csv"), ElementsAre(kEpochsCsvHeader, "1,422,0.75,0.5,,,2,0,0,0,",
                                               "2,422,0.75,0.5,0.25,0.875,2,0,0,0,0.5"));
}

TEST_F(TimingCollectorTest, EpochsWithoutAccuracyHaveEmptyAccuracyCells) {
  const auto collector = Open(1);
  proto::EpochResult epoch;
  epoch.set_train_loss(0.75);
  epoch.set_validated(true);
  epoch.set_validation_loss(0.25);
  ASSERT_TRUE(collector->AddEpoch(epoch).ok());
  ASSERT_TRUE(collector->Flush().ok());
  EXPECT_THAT(Lines("epochs.csv"), ElementsAre(kEpochsCsvHeader, "1,0,0.75,,0.25,,0,0,0,0,"));
}

TEST_F(TimingCollectorTest, ResumedRunAppendsToTablesAfterTheLastWholeLine) {
  const std::string header = absl::StrCat(kEpochsCsvHeader, "\n");
  std::ofstream(run_dir_ + "/epochs.csv") << header << "1,422,0.75,0.5,,,2,0,0,0,\n2,84";
  state_.set_epoch(1);
  ASSERT_TRUE(Open(1)->AddEpoch(Second()).ok());
  EXPECT_THAT(Lines("epochs.csv"),
              ElementsAre(kEpochsCsvHeader, "1,422,0.75,0.5,,,2,0,0,0,", "2,0,0,,,,0,0,0,0,"));
}

// The attempt begins at position 20 of the second epoch.
TEST_F(TimingCollectorTest, AttemptThatBeginsToTrain_RemovesTableLinesOfUndoneSteps) {
  WriteSteps({{1, 80}, {2, 100}, {2, 110}, {2, 120}, {3, 210}});
  WriteEpochs({"1,4,0.5,,,,1,0,0,0,", "2,8,0.4,,,,1,0,0,0,", "3,9,0.3,,,,1,0,0,0,"});
  state_.set_epoch(1);
  state_.set_position(20);
  const auto collector = Open(1);
  EXPECT_THAT(Lines("steps.csv"), SizeIs(6)) << "it does not train yet";
  EXPECT_THAT(Lines("epochs.csv"), SizeIs(4));
  ASSERT_TRUE(collector->Begin().ok());
  EXPECT_THAT(Lines("epochs.csv"), ElementsAre(kEpochsCsvHeader, "1,4,0.5,,,,1,0,0,0,"));
  proto::StepRecord record = Record(0, 6, 10);
  record.set_epoch(1);
  record.set_sample_begin(120);
  Add(*collector, {record});
  ASSERT_TRUE(collector->Flush().ok());
  EXPECT_THAT(Places(), ElementsAre("1 80", "2 100", "2 110", "2 120"));
  EXPECT_FALSE(FileExists(run_dir_ + "/steps.csv.tmp"));
}

// Earlier attempts have trained everything, but the job's test or summary is missing.
TEST_F(TimingCollectorTest, AttemptWithoutTraining_KeepsTheLineOfTheEpochThatMaxStepsEnded) {
  WriteEpochs({"1,4,0.5,,,,1,0,0,0,", "2,6,0.4,,,,1,0,0,0,"});
  state_.set_epoch(1);
  state_.set_position(20);
  finished_ = true;
  ASSERT_TRUE(Open(1)->Begin().ok());
  EXPECT_THAT(Lines("epochs.csv"), SizeIs(3));
  finished_ = false;
  ASSERT_TRUE(Open(1)->Begin().ok());
  EXPECT_THAT(Lines("epochs.csv"), SizeIs(2));
}

TEST_F(TimingCollectorTest, FirstLineAddedToATable_RemovesLinesOfUndoneSteps) {
  WriteSteps({{1, 80}, {2, 100}});
  WriteEpochs({"1,4,0.5,,,,1,0,0,0,", "2,8,0.4,,,,1,0,0,0,"});
  state_.set_epoch(1);
  const auto collector = Open(1);
  Add(*collector, {Record(0, 4, 10)});
  ASSERT_TRUE(collector->AddEpoch(Second()).ok());
  ASSERT_TRUE(collector->Flush().ok());
  EXPECT_THAT(Places(), ElementsAre("1 80", "1 0"));
  EXPECT_THAT(Lines("epochs.csv"), ElementsAre(kEpochsCsvHeader, "1,4,0.5,,,,1,0,0,0,", "2,0,0,,,,0,0,0,0,"));
}

// The table is longer than the pieces in which it is copied.
TEST_F(TimingCollectorTest, TableLongerThanTheCopyBuffer_LosesOnlyLinesOfUndoneSteps) {
  std::vector<std::pair<int, int>> places;
  for (int i = 0; i < 50000; ++i) places.emplace_back(1 + i / 25000, 0);
  WriteSteps(places);
  state_.set_epoch(1);
  ASSERT_TRUE(Open(1)->Begin().ok());
  EXPECT_THAT(Lines("steps.csv"), SizeIs(25001));
}

TEST_F(TimingCollectorTest, TableOfAnEarlierVersion_GetsTheColumnsThatItLacks) {
  std::ofstream(run_dir_ + "/epochs.csv") << "epoch,step,train_loss,train_seconds\n1,7,0.5,2\n2,14,0.4,2\n";
  state_.set_epoch(1);
  const auto collector = Open(1);
  ASSERT_TRUE(collector->AddEpoch(Second()).ok());
  ASSERT_TRUE(collector->Flush().ok());
  EXPECT_THAT(Lines("epochs.csv"), ElementsAre(kEpochsCsvHeader, "1,7,0.5,,,,2,,,,", "2,0,0,,,,0,0,0,0,"));
}

TEST_F(TimingCollectorTest, TableOfALaterVersion_KeepsItsUnknownColumns) {
  std::ofstream(run_dir_ + "/epochs.csv") << "later,epoch,step,train_seconds\nx,1,7,2\n";
  state_.set_epoch(1);
  for (int attempt = 0; attempt < 2; ++attempt) {  // The second attempt finds the file of the first.
    ASSERT_TRUE(Open(1)->AddEpoch(Second()).ok());
    EXPECT_THAT(Lines("epochs.csv"), ElementsAre(absl::StrCat(kEpochsCsvHeader, ",later"), "1,7,,,,,2,,,,,x",
                                                 "2,0,0,,,,0,0,0,0,,"));
  }
}

TEST_F(TimingCollectorTest, TableThatIsASymbolicLink_StaysALink) {
  std::ofstream(run_dir_ + "/elsewhere.csv") << kEpochsCsvHeader << "\n2,8,0.4,,,,1,0,0,0,\n";
  std::filesystem::create_symlink("elsewhere.csv", run_dir_ + "/epochs.csv");
  ASSERT_TRUE(Open(1)->Begin().ok());
  EXPECT_THAT(Lines("elsewhere.csv"), ElementsAre(kEpochsCsvHeader));
  EXPECT_TRUE(std::filesystem::is_symlink(run_dir_ + "/epochs.csv"));
}

TEST_F(TimingCollectorTest, ExistingTableFileWithoutTheExpectedColumns_IsRefused) {
  for (const std::string& text :
       {std::string("step,name\n0,1\n"), std::string("\n"), std::string(100000, 'x') + "\n"}) {
    std::ofstream(run_dir_ + "/steps.csv") << text;
    const absl::Status status = TimingCollector::Open(run_dir_, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("steps.csv"));
  }
}

TEST_F(TimingCollectorTest, WriteToAFullDiskIsResourceExhausted) {
  std::filesystem::create_symlink("/dev/full", run_dir_ + "/steps.csv");
  EXPECT_EQ(TimingCollector::Open(run_dir_, {}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Summary, SummaryRoundTripsAndDamagedOrMissingFileIsAnError) {
  std::string pattern = ::testing::TempDir() + "/summary.XXXXXX";
  const std::string run_dir = mkdtemp(pattern.data());
  proto::RunSummary summary;
  summary.set_job("fashion");
  summary.set_seed(0xFFFFFFFFFFFFFFFF);
  summary.mutable_timing()->set_beta(0.1 + 0.2);
  summary.mutable_communication()->add_staleness()->set_steps(17);
  ASSERT_TRUE(WriteSummary(run_dir, summary).ok());
  EXPECT_EQ(ReadSummary(run_dir)->SerializeAsString(), summary.SerializeAsString());
  EXPECT_THAT(*ReadFile(run_dir + "/summary.json"), HasSubstr("\"samples_per_second\": 0"));
  std::ofstream(run_dir + "/summary.json") << "{\"job\": ";
  EXPECT_EQ(ReadSummary(run_dir).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(RemoveRecursively(run_dir).ok());
  EXPECT_EQ(ReadSummary(run_dir).status().code(), absl::StatusCode::kNotFound);
}

// A collector whose state is saved in the middle of the attempt.
class SavedCollectorTest : public TimingCollectorTest {
 protected:
  SavedCollectorTest() {
    WriteSteps({{1, 80}});
    state_.set_epoch(1);
    collector_ = Open(2, /*lock_step=*/false);
    EXPECT_TRUE(collector_->Begin().ok());
    AddSteps(*collector_, 0, 20);
    EXPECT_TRUE(collector_->AddEpoch(Second()).ok());
    Add(*collector_,
        {WithNorms(0, 20)});  // Its line waits in the buffer, and the noise waits for the other worker.
    proto::TimingState saved;
    EXPECT_TRUE(collector_->Save(saved).ok());
    EXPECT_TRUE(saved_.ParseFromString(saved.SerializeAsString()));
    steps_ = *ReadFile(run_dir_ + "/steps.csv");
    epochs_ = *ReadFile(run_dir_ + "/epochs.csv");
  }
  static proto::StepRecord WithNorms(int rank, int64_t step) {
    proto::StepRecord record = Record(rank, step, 1000 + 10 * step + rank, /*staleness=*/step % 3);
    record.set_epoch(1 + step / 10);
    record.set_own_square(2 + 0.1 * static_cast<double>(step));
    record.set_sum_square(3);
    return record;
  }
  static void AddSteps(TimingCollector& collector, int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      Add(collector, {WithNorms(0, step), WithNorms(1, step)}, /*offset=*/7);
    }
  }
  // What follows after the state was saved.
  static void GoOn(TimingCollector& collector) {
    Add(collector, {WithNorms(1, 20)});
    AddSteps(collector, 21, 40);
    proto::EpochResult epoch;
    epoch.set_epoch(2);
    epoch.set_validation_seconds(1.5);
    epoch.set_barrier_seconds(0.5);
    EXPECT_TRUE(collector.AddEpoch(epoch).ok());
    EXPECT_TRUE(collector.Flush().ok());
  }
  absl::StatusOr<std::unique_ptr<TimingCollector>> Restore(const proto::TimingState& state) {
    return TimingCollector::Restore(run_dir_, {.workers = 2, .lock_step = false}, state);
  }
  void WriteFiles() {
    std::ofstream(run_dir_ + "/steps.csv") << steps_;
    std::ofstream(run_dir_ + "/epochs.csv") << epochs_;
  }

  std::unique_ptr<TimingCollector> collector_;
  proto::TimingState saved_;
  std::string steps_, epochs_;  // The files when the state was saved.
};

TEST_F(SavedCollectorTest, RestoredCollector_ContinuesAsTheOriginalWould) {
  GoOn(*collector_);
  const std::string summary = Summary(*collector_).DebugString();
  const std::vector<std::string> steps = Lines("steps.csv"), epochs = Lines("epochs.csv");
  ASSERT_THAT(steps, SizeIs(1 + 1 + 80));
  ASSERT_THAT(epochs, SizeIs(1 + 2));
  collector_.reset();
  const auto restored = Restore(saved_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  GoOn(**restored);
  EXPECT_EQ(Summary(**restored).DebugString(), summary);
  EXPECT_EQ(Lines("steps.csv"), steps);
  EXPECT_EQ(Lines("epochs.csv"), epochs);
}

TEST_F(SavedCollectorTest, LinesThatWereNotWrittenYet_AreInTheState) {
  collector_.reset();
  WriteFiles();  // The lost chief wrote no further line.
  ASSERT_TRUE((*Restore(saved_))->Flush().ok());
  EXPECT_THAT(Lines("steps.csv"), SizeIs(1 + 1 + 41));
  EXPECT_THAT(Lines("epochs.csv"), SizeIs(1 + 1));
}

TEST_F(SavedCollectorTest, FileThatHasBecomeShorter_IsAnError) {
  collector_.reset();
  std::ofstream(run_dir_ + "/steps.csv") << kStepsCsvHeader << "\n";
  EXPECT_TRUE(absl::IsDataLoss(Restore(saved_).status()));
}

TEST_F(SavedCollectorTest, DamagedState_IsRefusedOrStillUsable) {
  collector_.reset();
  int refused = 0;
  testing::MessageChanges([&] {
    WriteFiles();
    const auto restored = Restore(saved_);
    refused += restored.ok() ? 0 : 1;
    if (restored.ok()) GoOn(**restored);
    if (restored.ok()) Summary(**restored);
  }).Of(saved_);
  EXPECT_GT(refused, 50);
}

TEST_F(TimingCollectorTest, StateIsUnavailable_BeforeTheTablesAreBegun) {
  proto::TimingState state;
  EXPECT_TRUE(absl::IsUnavailable(Open(1)->Save(state)));
}

}  // namespace
}  // namespace tethys
