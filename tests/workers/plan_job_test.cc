#include "workers/plan_job.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/job/job_file.h"
#include "tests/runtime/data/idx_files.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDense[] =
    "layer { flatten {} } layer { dense { units: 6 } } layer { name: 'norm' batch_normalisation {} } "
    "layer { dense { units: 5 } }";
constexpr char kImages[] =
    "layer { name: 'norm' batch_normalisation {} } layer { flatten {} } layer { dense { units: 5 } }";

// Jobs on 20 images of 2 x 2 pixels.
class PlanJobTest : public ::testing::Test {
 protected:
  absl::StatusOr<proto::JobPlan> PlanOf(const std::string& layers, const std::string& rest,
                                        const std::string& data = "") {
    const proto::Idx idx = testing::WriteIdxData(directory_, 20, 0).idx();
    const auto job =
        ParseJob(absl::StrCat("model { ", layers, " } data { idx { train_images: '", idx.train_images(),
                              "' train_labels: '", idx.train_labels(), "' } classes: 5 ", data,
                              " } optimizer { sgd {} learning_rate: 0.1 } epochs: 1 ", rest),
                 "job.textproto", {});
    EXPECT_TRUE(job.ok()) << job.status();
    return PlanJob(*job);
  }
  void ExpectRefused(const std::string& layers, const std::string& rest) {
    const absl::Status status = PlanOf(layers, rest).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << rest << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model: layer 'norm'")) << rest;
    EXPECT_THAT(std::string(status.message()), HasSubstr("batches of at least 2 samples")) << rest;
  }

  const testing::TempDirectory directory_;
};

TEST_F(PlanJobTest, PlanListsTheModelsMovingStatistics) {
  const proto::JobPlan plan = PlanOf(kDense, "batch_size_per_worker: 4").value();
  const VariableSet statistics = StatisticsOf(plan).value();
  ASSERT_EQ(statistics.variables().size(), 2u);
  EXPECT_EQ(statistics.variables()[0].name, "norm/moving_mean");
  EXPECT_EQ(statistics.variables()[0].shape, Shape{6});
  EXPECT_EQ(statistics.variables()[0].initial_value, InitialValue::kZeros);
  EXPECT_EQ(statistics.variables()[1].name, "norm/moving_variance");
  EXPECT_EQ(statistics.variables()[1].initial_value, InitialValue::kOnes);
  const VariableSet variables = VariablesOf(plan).value();
  EXPECT_EQ(variables.Find("norm/scale")->initial_value, InitialValue::kOnes);
  EXPECT_EQ(variables.Find("norm/moving_mean"), nullptr);
}

// ----------------------------------------------------------------------------------------- sharding

// Jobs on CIFAR-10's files of 3, 4 and 5 samples, of which the last 5 are the validation split.
class ShardingPlanTest : public ::testing::Test {
 protected:
  absl::StatusOr<proto::JobPlan> PlanOf(const std::string& sharding, int workers) {
    constexpr int64_t kRecordBytes = 1 + 3 * 32 * 32;
    for (const int samples : {4, 5, 3}) {
      directory_.Write(absl::StrCat("batch_", samples, ".bin"), std::string(samples * kRecordBytes, 0));
    }
    const auto job = ParseJob(
        absl::StrCat("model { layer { flatten {} } layer { dense { units: 5 } } } data { cifar { train: '",
                     directory_.Path("batch_*.bin"), "' } classes: 5 validation_samples: 5 sharding: ",
                     sharding, " } optimizer { sgd {} learning_rate: 0.1 } epochs: 1 workers: ", workers,
                     " strategy { mirrored {} } batch_size_per_worker: 2"),
        "job.textproto", {});
    EXPECT_TRUE(job.ok()) << job.status();
    return PlanJob(*job);
  }
  std::string ErrorOf(const std::string& sharding, int workers) {
    const absl::Status status = PlanOf(sharding, workers).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(ShardingPlanTest, PlanForShardingByFileListsTheTrainingSamplesOfEachFile) {
  const proto::JobPlan plan = PlanOf("FILE", 2).value();
  EXPECT_THAT(plan.file_samples(), ElementsAre(3, 4, 0)) << "in the order of their names";
  EXPECT_EQ(plan.train_samples(), 7);
  EXPECT_THAT(PlanOf("DATA", 2).value().file_samples(), IsEmpty());
}

TEST_F(ShardingPlanTest, AutoShardsByFileIfEveryWorkerGetsAFile) {
  EXPECT_THAT(PlanOf("AUTO", 2).value().file_samples(), ElementsAre(3, 4, 0));
  EXPECT_THAT(PlanOf("AUTO", 3).value().file_samples(), IsEmpty());
}

TEST_F(ShardingPlanTest, FewerFilesThanWorkersAreRefusedWithRemedy) {
  EXPECT_THAT(ErrorOf("FILE", 3), HasSubstr("only 2 of 3 files have samples for training, and each of 3"));
  EXPECT_THAT(ErrorOf("FILE", 3), HasSubstr("write sharding: DATA"));
}

TEST_F(ShardingPlanTest, HostWhoseFilesDifferFromThePlanIsRefused) {
  const proto::JobPlan plan = PlanOf("FILE", 2).value();
  EXPECT_TRUE(CheckFileSamples(plan, {3, 4, 0}).ok());
  const absl::Status other = CheckFileSamples(plan, {4, 3, 0});
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("batch_3.bin has 4 samples for training on this host, but 3 in the job's plan"));
  EXPECT_THAT(std::string(CheckFileSamples(plan, {7}).message()),
              HasSubstr("1 on this host, but 3 in the job's plan"));
  EXPECT_TRUE(CheckFileSamples(PlanOf("DATA", 2).value(), {7}).ok()) << "files do not matter";
}

TEST_F(PlanJobTest, ShardingByFileIsRefusedIfSamplesAreNotInSeveralFiles) {
  const absl::Status status = PlanOf(kDense, "batch_size_per_worker: 4", "sharding: FILE").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("data.idx does not spread samples over files"));
  EXPECT_THAT(PlanOf(kDense, "batch_size_per_worker: 4", "sharding: AUTO")->file_samples(), IsEmpty());
}

// ------------------------------------------------------------------------------------- normalisation

TEST_F(PlanJobTest, BatchNormalisationOverASingleValueIsRefused) {
  ExpectRefused(kDense, "batch_size_per_worker: 1");
  ExpectRefused(kDense, "workers: 3 global_batch_size: 5 strategy { mirrored {} }");
  ExpectRefused(kDense, "batch_size_per_worker: 5 strategy { local { virtual_replicas: 3 } }");
}

// An epoch of 20 samples ends with a batch of 2 samples, of which each worker would have one or none.
TEST_F(PlanJobTest, ShortLastBatchWithOneValueForAWorkerIsRefused) {
  const std::string rest = "workers: 3 global_batch_size: 6 strategy { mirrored {} }";
  ExpectRefused(kDense, rest);
  EXPECT_THAT(std::string(PlanOf(kDense, rest).status().message()),
              HasSubstr("an epoch of 20 samples ends with a batch of 2: write drop_remainder: true"));
  EXPECT_TRUE(PlanOf(kDense, "workers: 3 global_batch_size: 7 strategy { mirrored {} }").ok());
}

TEST_F(PlanJobTest, BatchNormalisationOverTwoValuesIsAccepted) {
  for (const char* rest :
       {"batch_size_per_worker: 2", "workers: 3 global_batch_size: 6 strategy { mirrored {} }",
        "batch_size_per_worker: 6 strategy { local { virtual_replicas: 3 } }"}) {
    EXPECT_TRUE(PlanOf(kDense, absl::StrCat(rest, " drop_remainder: true")).ok()) << rest;
  }
  EXPECT_TRUE(PlanOf(kImages, "batch_size_per_worker: 1").ok()) << "an image has four positions";
}

TEST_F(PlanJobTest, SynchronisedNormalisationCountsTheSamplesOfAllWorkers) {
  const auto batch_of = [](int samples) {
    return absl::StrCat("workers: 3 global_batch_size: ", samples,
                        " strategy { mirrored { synchronised_batch_normalisation: true } }");
  };
  EXPECT_TRUE(PlanOf(kDense, batch_of(6)).ok()) << "the last batch has two samples";
  ExpectRefused(kDense, batch_of(19));  // The last batch has one sample.
  EXPECT_TRUE(PlanOf(kDense, absl::StrCat(batch_of(12), " micro_batches: 4")).ok());
  EXPECT_TRUE(PlanOf(kDense, absl::StrCat(batch_of(8), " drop_remainder: true micro_batches: 2")).ok());
  // Each worker computes two rows at a time, so the first part of the batch has four samples, the second part
  // one.
  ExpectRefused(kDense,
                "workers: 2 global_batch_size: 5 micro_batches: 2 drop_remainder: true strategy { "
                "mirrored { synchronised_batch_normalisation: true } }");
}

TEST_F(PlanJobTest, ResumeInAnEpochThatEndsWithABatchOfOneSampleIsRefused) {
  const proto::JobPlan plan = PlanOf(kDense, "global_batch_size: 4").value();
  EXPECT_TRUE(CheckRestOfEpoch(plan, 0).ok());
  EXPECT_TRUE(CheckRestOfEpoch(plan, 12).ok());
  EXPECT_TRUE(CheckRestOfEpoch(plan, 18).ok()) << "two samples";
  const absl::Status status = CheckRestOfEpoch(plan, 15);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("at position 15 of an epoch of 20 samples, and the rest of this "
                        "epoch ends with a batch of 1: resume with another batch size"));
  EXPECT_TRUE(CheckRestOfEpoch(PlanOf(kImages, "global_batch_size: 4").value(), 15).ok());
}

}  // namespace
}  // namespace tethys
