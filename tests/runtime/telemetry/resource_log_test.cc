#include "runtime/telemetry/resource_log.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "runtime/telemetry/summary.h"
#include "tests/testing/message_changes.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

// A log whose second 0 is second 100 of the chief's clock.
class ResourceLogTest : public ::testing::Test {
 protected:
  static proto::ResourceSample Sample(double at, double cpu, int64_t bytes, bool machine = false) {
    proto::ResourceSample sample;
    sample.set_machine(machine);
    sample.set_taken_ns(FromSeconds(at));
    sample.set_interval_ns(kSecond);
    sample.set_cpu_percent(cpu);
    sample.set_resident_bytes(bytes);
    sample.set_network_in_bytes(bytes);
    sample.set_cores(machine ? 4 : 0);
    if (machine) sample.set_boot_id("boot");
    return sample;
  }
  void Machine(const std::string& host, double at, double cpu) {
    ASSERT_TRUE(log_->Add(host, "worker 0", Sample(at, cpu, 1000, true), 0).ok());
  }
  void Process(const std::string& name, double at, double cpu) {
    ASSERT_TRUE(log_->Add("a", name, Sample(at, cpu, 10), 0).ok());
  }
  proto::RunSummary Summary() const {
    proto::RunSummary summary;
    log_->FillSummary(summary);
    return summary;
  }
  std::string Csv() {
    EXPECT_TRUE(log_->Flush().ok());
    return ReadFile(directory_.path() + "/resources.csv").value();
  }

  testing::TempDirectory directory_;
  std::unique_ptr<ResourceLog> log_ = ResourceLog::Open(directory_.path(), 100 * kSecond).value();
};

TEST_F(ResourceLogTest, EachSampleBecomesALineWithTheTimeOnTheChiefsClock) {
  ASSERT_TRUE(log_->Add("a", "worker 0", Sample(1, 50, 7), 101 * kSecond).ok());
  EXPECT_EQ(Csv(), std::string(kResourcesCsvHeader) + "\n2.000,a,worker 0,50.0,7,7,0,0,0,,,\n");
}

TEST_F(ResourceLogTest, CsvLineOfAMachineHasAnEmptyProcessColumn) {
  Machine("a", 101, 30);
  EXPECT_NE(Csv().find("\n1.000,a,,30.0,1000,1000,"), std::string::npos);
}

TEST_F(ResourceLogTest, SummaryHasMeanAndExtremesOfEachProcess) {
  Process("ps 0", 101, 10);
  Process("ps 0", 102, 40);
  Process("chief", 102, 1);
  const proto::RunSummary summary = Summary();
  ASSERT_EQ(summary.resources_size(), 2);
  EXPECT_EQ(summary.resources(0).process(), "chief");
  EXPECT_EQ(summary.resources(1).samples(), 2);
  EXPECT_DOUBLE_EQ(summary.resources(1).cpu_percent().mean(), 25);
  EXPECT_DOUBLE_EQ(summary.resources(1).cpu_percent().minimum(), 10);
  EXPECT_DOUBLE_EQ(summary.resources(1).cpu_percent().maximum(), 40);
  EXPECT_DOUBLE_EQ(summary.resources(1).network_in_bytes_per_second().mean(), 10);
}

TEST_F(ResourceLogTest, LongerSampleWeighsMoreInTheMean) {
  Process("ps 0", 101, 10);
  proto::ResourceSample longer = Sample(104, 40, 0);
  longer.set_interval_ns(3 * kSecond);
  ASSERT_TRUE(log_->Add("a", "ps 0", longer, 0).ok());
  EXPECT_DOUBLE_EQ(Summary().resources(0).cpu_percent().mean(), (10 + 3 * 40) / 4.0);
}

TEST_F(ResourceLogTest, SummaryHasTheGpuReadingsOfAProcess) {
  proto::ResourceSample sample = Sample(101, 50, 7);
  sample.set_gpu_percent(37);
  sample.set_gpu_memory_bytes(81788928);
  ASSERT_TRUE(log_->Add("a", "worker 0", sample, 0).ok());
  sample.set_gpu_percent(63);
  ASSERT_TRUE(log_->Add("a", "worker 0", sample, 0).ok());
  EXPECT_NE(Csv().find("\n1.000,a,worker 0,50.0,7,7,0,0,0,37,81788928,\n"), std::string::npos) << Csv();
  const proto::ResourceSummary use = Summary().resources(0);
  EXPECT_DOUBLE_EQ(use.gpu_percent().mean(), 50);
  EXPECT_DOUBLE_EQ(use.gpu_memory_bytes().maximum(), 81788928);
  EXPECT_FALSE(use.has_gpu_power_watts());
}

TEST_F(ResourceLogTest, ClusterSumBeginsOnceEveryMachineHasASample) {
  log_->SetMachines({"a", "b"});
  Machine("a", 101, 30);
  Machine("b", 101.2, 50);
  Machine("a", 102, 10);
  const proto::RunSummary summary = Summary();
  const proto::ResourceSummary& cluster = summary.resources(0);
  EXPECT_EQ(cluster.host(), "");
  EXPECT_EQ(cluster.cores(), 8);
  EXPECT_EQ(cluster.boot_id(), "");
  EXPECT_EQ(summary.resources(1).boot_id(), "boot");
  EXPECT_EQ(cluster.samples(), 1) << "the second moment lacks b";
  EXPECT_DOUBLE_EQ(cluster.cpu_percent().mean(), 80);
  EXPECT_DOUBLE_EQ(cluster.resident_bytes().mean(), 2000);
}

TEST_F(ResourceLogTest, ClusterSumDoesNotWaitForAMachineThatIsGone) {
  log_->SetMachines({"a", "b"});
  Machine("a", 101, 30);
  Machine("b", 101, 50);
  for (const double at : {102, 103, 104, 105}) Machine("a", at, 20);
  EXPECT_DOUBLE_EQ(Summary().resources(0).cpu_percent().minimum(), 20);
}

TEST_F(ResourceLogTest, SamplesWithImplausibleValuesAreDropped) {
  const std::string before = Csv();
  proto::ResourceSample sample = Sample(101, std::numeric_limits<double>::quiet_NaN(), 1);
  ASSERT_TRUE(log_->Add("a", "ps 0", sample, 0).ok());
  sample = Sample(101, 10, -1);
  ASSERT_TRUE(log_->Add("a", "ps 0", sample, 0).ok());
  sample = Sample(101, 10, 1);
  sample.set_gpu_power_watts(-3);
  ASSERT_TRUE(log_->Add("a", "ps 0", sample, 0).ok());
  sample = Sample(101, 10, 1);
  sample.set_interval_ns(0);
  ASSERT_TRUE(log_->Add("a", "ps 0", sample, 0).ok());
  EXPECT_EQ(Csv(), before);
  EXPECT_EQ(Summary().resources_size(), 0);
}

TEST_F(ResourceLogTest, CommasQuotesAndLineBreaksInAHostNameAreReplaced) {
  ASSERT_TRUE(log_->Add("a,b\n\"c", "ps 0", Sample(101, 1, 1), 0).ok());
  EXPECT_NE(Csv().find("\n1.000,a_b__c,ps 0,"), std::string::npos);
}

// A log whose state is saved between the samples of two machines.
class SavedResourceLogTest : public ResourceLogTest {
 protected:
  SavedResourceLogTest() {
    log_->SetMachines({"a", "b"});
    Process("ps 0", 101, 10);
    EXPECT_TRUE(log_->Flush().ok());
    Machine("a", 101, 30);
    Machine("b", 101, 50);
    Machine("a", 102, 10);
    proto::ResourceSample sample = Sample(101, 50, 7);
    sample.set_gpu_percent(37);
    EXPECT_TRUE(log_->Add("a", "worker 0", sample, 0).ok());
    proto::ResourceLogState saved;
    EXPECT_TRUE(log_->Save(saved).ok());
    EXPECT_TRUE(saved_.ParseFromString(saved.SerializeAsString()));
    file_ = *ReadFile(path_);
  }
  void GoOn() {
    Machine("b", 102, 70);
    Process("ps 0", 103, 40);
    EXPECT_TRUE(log_->Flush().ok());
  }
  absl::Status Restore() {
    auto restored = ResourceLog::Restore(directory_.path(), 100 * kSecond, saved_);
    if (restored.ok()) log_ = *std::move(restored);
    return restored.status();
  }

  const std::string path_ = directory_.path() + "/resources.csv";
  proto::ResourceLogState saved_;
  std::string file_;  // The file when the state was saved.
};

TEST_F(SavedResourceLogTest, RestoredLog_ContinuesAsTheOriginalWould) {
  GoOn();
  const std::string csv = Csv(), summary = Summary().DebugString();
  ASSERT_TRUE(Restore().ok());
  GoOn();
  EXPECT_EQ(Csv(), csv);
  EXPECT_EQ(Summary().DebugString(), summary);
}

TEST_F(SavedResourceLogTest, DamagedState_IsRefusedOrStillUsable) {
  int refused = 0;
  testing::MessageChanges([&] {
    log_.reset();
    ASSERT_TRUE(WriteFileAtomically(path_, file_).ok());
    if (!Restore().ok()) {
      ++refused;
      return;
    }
    GoOn();
    Summary();
  }).Of(saved_);
  EXPECT_GT(refused, 20);
}

TEST(CostTest, CostFollowsFromThePriceAndTheTimes) {
  proto::RunSummary summary;
  summary.mutable_timing()->set_total_seconds(7200);
  summary.mutable_timing()->set_training_seconds(3000);
  summary.mutable_timing()->set_validation_seconds(600);
  FillCost(0.5, 4, summary);
  EXPECT_DOUBLE_EQ(summary.cost().run(), 1.0);
  EXPECT_DOUBLE_EQ(summary.cost().epoch(), 0.125);
  FillCost(0.5, 1.25, summary);
  EXPECT_DOUBLE_EQ(summary.cost().epoch(), 0.4) << "the last epoch was left at a quarter";
}

TEST(CostTest, EachAttemptCountsWithThePriceOfItsMachines) {
  proto::RunSummary summary;
  for (const double price : {1.0, 4.0, 0.0}) {
    proto::Attempt& attempt = *summary.add_attempt();
    attempt.set_total_seconds(3600);
    if (price > 0) attempt.set_price_per_hour(price);
  }
  summary.mutable_timing()->set_total_seconds(3 * 3600);
  summary.mutable_timing()->set_training_seconds(3600);
  FillCost(7, 2, summary);
  EXPECT_DOUBLE_EQ(summary.cost().run(), 12.0);
  EXPECT_DOUBLE_EQ(summary.cost().price_per_hour(), 4.0);
  EXPECT_DOUBLE_EQ(summary.cost().epoch(), 2.0);
}

TEST(CostTest, CostOfAnEpochIsUnknownBeforeTheFirstHasEnded) {
  proto::RunSummary summary;
  summary.mutable_timing()->set_training_seconds(3000);
  FillCost(0.5, 0.5, summary);
  EXPECT_TRUE(summary.has_cost());
  EXPECT_FALSE(summary.cost().has_epoch());
}

TEST(CostTest, CostIsAbsentWithoutAPrice) {
  proto::RunSummary summary;
  FillCost(0, 4, summary);
  EXPECT_FALSE(summary.has_cost());
}

}  // namespace
}  // namespace tethys
